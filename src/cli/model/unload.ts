import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { print, printJson } from '../print/output.ts';

export async function run({ paths, args, json }: Context): Promise<number> {
  const result = await askDaemon(
    paths,
    'model.unload',
    { model: args[0] },
    { timeout_ms: UNLOAD_MS },
  );
  if (json) printJson(result);
  else print(`${oneLine(result.unloaded)} is not in memory.`);
  return 0;
}

/** The daemon asks the process, kills it, or gives it up. */
const UNLOAD_MS = 240_000;
