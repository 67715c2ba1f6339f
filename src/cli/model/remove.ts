import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { bytes } from '../terminal/print/format.ts';
import { print, printJson } from '../terminal/print/output.ts';

/** Removes one model after the other. Ends at the first that cannot be removed. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const removed = [];
  for (const id of args) {
    const model = await askDaemon(paths, 'model.remove', { id });
    removed.push(model);
    const what = model.state === 'partial' ? 'the downloaded part of ' : '';
    const freed = model.size_bytes === null ? '' : `: ${bytes(model.size_bytes)} freed`;
    if (!json) print(`Removed ${what}${oneLine(model.id)}${freed}.`);
  }
  if (json) printJson(removed.length === 1 ? removed[0] : { removed });
  return 0;
}
