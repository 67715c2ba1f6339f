import { resolve } from 'node:path';
import { oneLine } from '../../logs/plain.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { textFlag } from '../parse/flag-values.ts';
import { note, print, printJson } from '../print/output.ts';

/** Puts a file into the models folder and prints the id of the model. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  // The daemon has another working folder.
  const input = { path: resolve(args[0] ?? ''), name: textFlag(flags, 'name') ?? null };
  const model = await askDaemon(paths, 'model.import', input, { timeout_ms: IMPORT_MS });
  if (json) printJson(model);
  else {
    print(oneLine(model.id));
    note(`Ask it with: ${oneLine(wayToAsk(model))}`);
  }
  return 0;
}

/** A model that writes no answers has no command: other programs ask it. */
function wayToAsk({ capabilities, name }: Results['model.import']): string {
  if (capabilities.includes('embedding')) return `POST /v1/embeddings, model local/${name}`;
  if (capabilities.includes('reranking')) return `POST /v1/rerank, model local/${name}`;
  return `svc run "…" --model ${name}`;
}

/** A copy to a slow disk, and the hash of a large file. */
const IMPORT_MS = 3_600_000;
