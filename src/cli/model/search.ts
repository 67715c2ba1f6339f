import { knownModels, searchKnown } from '../../models/index.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { bytes } from '../terminal/print/format.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { columnsOfStdout, table } from '../terminal/print/table.ts';
import { type Fit, fitFrom } from './fitting.ts';

/** Searches the table of short names, which needs no daemon, or the hub. */
export async function run(context: Context): Promise<number> {
  return context.flags.hub === true ? searchHub(context) : searchTable(context);
}

function searchTable({ args, json, paths }: Context): number {
  const fit = fitFrom(paths.config);
  const found = searchKnown(args).map((model) => ({ ...model, fit: fit(model.size_bytes) }));
  if (json) return printJson({ models: found });
  if (found.length === 0)
    note(`None of the ${knownModels.length} short names fits. Ask the hub with: --hub`);
  const rows = found.map(({ name, size_bytes, fit, licence, good_for, tools }) => [
    name,
    bytes(size_bytes),
    ...fitCells(fit),
    tools ? 'yes' : 'no',
    good_for,
    licence,
  ]);
  const heading = ['NAME', 'SIZE', ...FIT, 'TOOLS', 'GOOD FOR', 'LICENCE'];
  // The rest is worth more than the last column.
  const shown = columnsOfStdout() < ALL_COLUMNS ? heading.length - 1 : heading.length;
  if (rows.length > 0) {
    print(
      table(
        heading.slice(0, shown),
        rows.map((row) => row.slice(0, shown)),
      ),
    );
    noteFit(found);
    note(`Download one with: svc model pull ${found[0]?.name}`);
  }
  return 0;
}

async function searchHub({ args, json, paths }: Context): Promise<number> {
  const words = args.join(' ') || 'instruct';
  const { models } = await askDaemon(paths, 'model.search', { words }, { timeout_ms: HUB_MS });
  if (json) return printJson({ models });
  if (models.length === 0) note('The hub has no such model with GGUF files.');
  const rows = models.map(({ reference, size_bytes, fit, downloads, licence, gated }) => [
    reference,
    bytes(size_bytes ?? null),
    ...fitCells(fit ?? null),
    downloads === null ? '-' : String(downloads),
    `${licence ?? '-'}${gated ? ', asks for consent' : ''}`,
  ]);
  if (rows.length > 0) {
    const heading = ['REFERENCE', 'SIZE', ...FIT, 'DOWNLOADS', 'LICENCE'];
    print(table(heading, rows, { spare: ['DOWNLOADS', 'LICENCE'] }));
    noteFit(models);
    note(`Download one with: svc model pull ${models[0]?.reference}`);
  }
  return 0;
}

const ALL_COLUMNS = 100;
const FIT = ['MEMORY', 'FIT'];

function fitCells(fit: Fit | null): string[] {
  return fit === null ? ['-', '-'] : [bytes(fit.needs_bytes), fit.verdict];
}

/** Prints the memory that the column of verdicts compares with. */
function noteFit(found: readonly { fit?: Fit | null }[]): void {
  const fit = found.find((each) => each.fit != null)?.fit;
  if (fit == null) return;
  note(
    `Memory is estimated by size. Models may use ${bytes(fit.budget_bytes)} here, and ` +
      `${bytes(fit.free_bytes)} are free.`,
  );
}

/** Above the longest configurable time of the daemon for it. */
const HUB_MS = 660_000;
