import { readFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { writeAtomic } from '../../../home/atomic-write.ts';

/**
 * Finds the fastest number of threads by measurement, and remembers it for a model on a machine. On
 * a busy machine, one thread more than there are cores can be a hundred times slower.
 */

export interface ThreadsOptions {
  /** The model file and its version. */
  modelKey: string;
  /** The version of the engine and its device. */
  engineKey: string;
  /** JSON file of measurements. An unreadable file counts as empty. */
  file: string;
  /** Threads that this process may use. */
  available: number;
  /** Returns tokens per second. `limitMs` bounds the measurement. */
  measure(threads: number, limitMs: number): Promise<number>;
}

export interface ThreadsFound {
  threads: number;
  /** Tokens per second by number of threads. Empty: remembered. */
  measured: Record<string, number>;
}

/** Time for one candidate. A slow token may exceed it. */
const CANDIDATE_MS = 200;
/** Time for all candidates. After it no other one starts. */
const CALIBRATION_MS = 1000;
/** The least gain that justifies more threads, which other programs need too. */
const GAIN_LEAST = 1.05;
const ENTRIES_MAX = 64;

export async function findThreads(options: ThreadsOptions): Promise<ThreadsFound> {
  const key = `${options.modelKey} | ${options.engineKey} | ${cpus()[0]?.model ?? 'unknown'} x ${options.available}`;
  const remembered = await readRemembered(options.file);
  const known = remembered[key];
  if (known !== undefined && known <= options.available) return { threads: known, measured: {} };
  const found = await measureAll(options);
  await remember(options.file, { ...remembered, [key]: found.threads }).catch(() => {});
  return found;
}

/** Tries 1, 2, 4 … threads and stops when more bring too little. */
async function measureAll({ available, measure }: ThreadsOptions): Promise<ThreadsFound> {
  const measured: Record<string, number> = {};
  const end = performance.now() + CALIBRATION_MS;
  let best = { threads: 1, speed: 0 };
  for (const threads of candidates(available)) {
    const speed = await measure(threads, CANDIDATE_MS);
    measured[threads] = Math.round(speed);
    if (best.speed > 0 && speed < best.speed * GAIN_LEAST) break;
    best = { threads, speed };
    if (performance.now() > end) break;
  }
  return { threads: best.threads, measured };
}

export function candidates(available: number): number[] {
  const doubled: number[] = [];
  for (let threads = 1; threads < available; threads *= 2) doubled.push(threads);
  return [...doubled, Math.max(1, available)];
}

async function readRemembered(file: string): Promise<Record<string, number>> {
  try {
    const { threads } = JSON.parse(await readFile(file, 'utf8')) as { threads: unknown };
    const entries = Object.entries(threads as Record<string, unknown>);
    return Object.fromEntries(
      entries.filter(
        (entry): entry is [string, number] =>
          Number.isSafeInteger(entry[1]) && (entry[1] as number) > 0,
      ),
    );
  } catch {
    return {};
  }
}

async function remember(file: string, threads: Record<string, number>): Promise<void> {
  const newest = Object.fromEntries(Object.entries(threads).slice(-ENTRIES_MAX));
  await writeAtomic(file, `${JSON.stringify({ threads: newest }, null, 2)}\n`);
}
