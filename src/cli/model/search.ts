import { knownModels, searchKnown } from '../../models/catalogue.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { bytes } from '../print/format.ts';
import { note, print, printJson } from '../print/output.ts';
import { table } from '../print/table.ts';

/** Searches the table of short names, which needs no daemon, or the hub. */
export async function run(context: Context): Promise<number> {
  return context.flags.hub === true ? searchHub(context) : searchTable(context);
}

function searchTable({ args, json }: Context): number {
  const found = searchKnown(args);
  if (json) {
    printJson({ models: found });
    return 0;
  }
  if (found.length === 0)
    note(`None of the ${knownModels.length} short names fits. Ask the hub with: --hub`);
  const rows = found.map(({ name, size_bytes, licence, good_for }) => [
    name,
    bytes(size_bytes),
    licence,
    good_for,
  ]);
  if (rows.length > 0) {
    print(table(['NAME', 'SIZE', 'LICENCE', 'GOOD FOR'], rows));
    note(`Download one with: svc model pull ${found[0]?.name}`);
  }
  return 0;
}

async function searchHub({ args, json, paths }: Context): Promise<number> {
  const words = args.join(' ') || 'instruct';
  const { models } = await askDaemon(paths, 'model.search', { words }, { timeout_ms: HUB_MS });
  if (json) {
    printJson({ models });
    return 0;
  }
  if (models.length === 0) note('The hub has no such model with GGUF files.');
  const rows = models.map(({ reference, downloads, licence, gated }) => [
    reference,
    downloads === null ? '-' : String(downloads),
    `${licence ?? '-'}${gated ? ', asks for consent' : ''}`,
  ]);
  if (rows.length > 0) {
    print(table(['REFERENCE', 'DOWNLOADS', 'LICENCE'], rows));
    note(`Download one with: svc model pull ${models[0]?.reference}`);
  }
  return 0;
}

/** Above the longest configurable time of the daemon for it. */
const HUB_MS = 660_000;
