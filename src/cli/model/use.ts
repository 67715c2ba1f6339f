import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { print, printJson } from '../terminal/print/output.ts';

/** Makes a model the default of the local engine. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const model = await askDaemon(paths, 'model.use', { id: args[0] }, { timeout_ms: USE_MS });
  if (json) printJson(model);
  else print(`The local engine answers with ${oneLine(model.id)} by default.`);
  return 0;
}

/** The header of its file is read. */
const USE_MS = 30_000;
