import { oneLine } from '../../logs/plain.ts';
import type { Context } from '../terminal/context.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { listModels } from './list-models.ts';
import { run as use } from './use.ts';

/** Prints the default model of the local engine, or sets it. */
export async function run(context: Context): Promise<number> {
  const { paths, args, json } = context;
  if (args.length > 0) return use(context);
  const { models } = await listModels(paths);
  const model = models.find((each) => each.default && each.provider === 'local') ?? null;
  if (json) printJson(model);
  else if (model !== null) print(oneLine(model.id));
  else note('The default model is not there. Choose another with: svc model use <id>');
  return 0;
}
