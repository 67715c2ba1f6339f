import { shownName } from '../../../machines/failover.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { bytes } from '../terminal/print/format.ts';
import { print, printJson } from '../terminal/print/output.ts';

export async function run({ paths, args, json }: Context): Promise<number> {
  const result = await askDaemon(
    paths,
    'model.unload',
    { model: args[0] },
    { timeout_ms: UNLOAD_MS },
  );
  const name = oneLine(shownName(result.unloaded));
  if (json) printJson(result);
  else if (result.freed_bytes == null) print(`${name} was not in memory.`);
  else print(`Unloaded ${name}: ${bytes(result.freed_bytes)} freed.`);
  return 0;
}

/** The daemon asks the process, kills it, or gives it up. */
const UNLOAD_MS = 240_000;
