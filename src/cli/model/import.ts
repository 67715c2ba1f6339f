import { resolve } from 'node:path';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { textFlag } from '../terminal/parse/flag-values.ts';
import { printNewModel } from './new-model.ts';

/** Puts a file into the models folder and prints the id of the model. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  // The daemon has another working folder.
  const input = { path: resolve(args[0] ?? ''), name: textFlag(flags, 'name') ?? null };
  printNewModel(await askDaemon(paths, 'model.import', input, { timeout_ms: IMPORT_MS }), json);
  return 0;
}

/** A copy to a slow disk, and the hash of a large file. */
const IMPORT_MS = 3_600_000;
