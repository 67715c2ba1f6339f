import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { bytes } from '../print/format.ts';
import { print, printJson } from '../print/output.ts';

export async function run({ paths, args, json }: Context): Promise<number> {
  const model = await askDaemon(paths, 'model.remove', { id: args[0] });
  if (json) printJson(model);
  else
    print(
      `Removed ${oneLine(model.id)}${model.size_bytes === null ? '' : `: ${bytes(model.size_bytes)} freed`}.`,
    );
  return 0;
}
