import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { note, printJson } from '../terminal/print/output.ts';

export async function run({ paths, args: [id = ''], json }: Context): Promise<number> {
  const node = await askDaemon(paths, 'node.drain', { id });
  if (json) printJson(node);
  else note(`${oneLine(node.id)} finishes its runs, then stops. See it with: svc nodes`);
  return 0;
}
