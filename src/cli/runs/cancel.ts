import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { print, printJson } from '../terminal/print/output.ts';

export async function run({ paths, args, json }: Context): Promise<number> {
  const record = await askDaemon(paths, 'run.cancel', { id: args[0] }, { timeout_ms: CANCEL_MS });
  if (json) printJson(record);
  else if (record.state === 'cancelled')
    print(`${oneLine(record.id)} is cancelled; its work has stopped.`);
  else print(oneLine(`${record.id} had already ended: ${record.state}.`));
  return 0;
}

/** Above the longest configurable grace for the work. */
const CANCEL_MS = 660_000;
