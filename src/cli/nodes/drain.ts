import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { note, printJson } from '../print/output.ts';

export async function run({ paths, args: [id = ''], json }: Context): Promise<number> {
  const node = await askDaemon(paths, 'node.drain', { id });
  if (json) printJson(node);
  else note(`${oneLine(node.id)} finishes its runs, then stops. See it with: svc nodes`);
  return 0;
}
