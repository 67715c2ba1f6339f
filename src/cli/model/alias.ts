import { hasCode, SvcError } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { note, print, printJson, warn } from '../terminal/print/output.ts';
import { table } from '../terminal/print/table.ts';
import { listModels } from './list-models.ts';

/** Lists the aliases, sets one or removes one. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const [name, model] = args;
  const isRemoval = flags.remove === true;
  if (name !== undefined && (model === undefined) !== isRemoval)
    throw new SvcError(
      'usage',
      isRemoval ? 'An alias is removed without a model.' : `The model of ${name} is missing.`,
      { hint: 'For example: svc model alias fast local/qwen3-0.6b' },
    );
  if (name === undefined && isRemoval)
    throw new SvcError('usage', 'The alias to remove is missing.', {
      hint: 'For example: svc model alias fast --remove',
    });
  const { aliases } =
    name === undefined
      ? await askDaemon(paths, 'model.aliases')
      : await askDaemon(paths, 'model.alias', { name, model: model ?? null });
  if (model !== undefined && !(await isKnown(paths, model)))
    warn(`No model is called ${model} now. Runs with ${name} fail until there is one.`);
  if (json) printJson({ aliases });
  else if (name !== undefined)
    print(
      oneLine(
        isRemoval ? `Removed the alias ${name}.` : `${name} means ${inOrder(aliases[name])}.`,
      ),
    );
  else if (Object.keys(aliases).length === 0)
    note('There are no aliases. For example: svc model alias fast local/qwen3-0.6b');
  else
    print(
      table(
        ['ALIAS', 'MODEL'],
        Object.entries(aliases).map(([alias, target]) => [alias, inOrder(target)]),
      ),
    );
  return 0;
}

/** A provider may have models that it does not list. */
async function isKnown(paths: Context['paths'], model: string): Promise<boolean> {
  if (/^(?!local\/).+\//.test(model)) return true;
  const { models } = await listModels(paths);
  if (models.some((one) => one.id === model || one.name === model)) return true;
  // A local model has more names than the one in the list.
  return askDaemon(paths, 'model.show', { id: model }).then(
    () => true,
    (error: unknown) => !hasCode(error, 'model_unknown'),
  );
}

/** A model, or the targets of a run one after the other. */
function inOrder(target: string | readonly string[] = ''): string {
  return [target].flat().join(', then ');
}
