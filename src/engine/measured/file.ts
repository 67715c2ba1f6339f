import { readFile } from 'node:fs/promises';
import { writeAtomic } from '../../home/atomic-write.ts';

/**
 * The measured figures of a model on a machine. `batching`: see `findGain`. `gpu_layers`: those of
 * its last load. `gpu_bytes`: the memory of a GPU, by its interface.
 */
const FIGURES = ['threads', 'batching', 'gpu_layers', 'gpu_bytes'] as const;
export type Figure = (typeof FIGURES)[number];
type Figures = Record<string, number>;

/** Models of one figure. The oldest are dropped. */
const ENTRIES_MAX = 64;

/** The figures of one kind, by model. An unreadable file counts as empty. */
export async function readMeasured(file: string, figure: Figure): Promise<Figures> {
  return (await readAll(file))[figure];
}

/** Adds a figure. A disk that is full or read-only costs only the next measurement. */
export async function addMeasured(
  file: string,
  figure: Figure,
  key: string,
  value: number,
): Promise<void> {
  const all = await readAll(file);
  const { [key]: _, ...others } = all[figure];
  const newest = Object.fromEntries([...Object.entries(others), [key, value]].slice(-ENTRIES_MAX));
  const text = JSON.stringify({ ...all, [figure]: newest }, null, 2);
  await writeAtomic(file, `${text}\n`).catch(() => {});
}

async function readAll(file: string): Promise<Record<Figure, Figures>> {
  const read = await readFile(file, 'utf8')
    .then((text) => JSON.parse(text) as Partial<Record<Figure, unknown>>)
    .catch(() => null);
  return Object.fromEntries(FIGURES.map((figure) => [figure, figuresIn(read?.[figure])])) as Record<
    Figure,
    Figures
  >;
}

function figuresIn(value: unknown): Figures {
  if (typeof value !== 'object' || value === null) return {};
  return Object.fromEntries(
    Object.entries(value).filter(
      ([, figure]) => Number.isSafeInteger(figure) && (figure as number) > 0,
    ),
  );
}
