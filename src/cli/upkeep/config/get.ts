import { SvcError } from '../../../errors.ts';
import { oneLine } from '../../../logs/plain.ts';
import type { Context } from '../../terminal/context.ts';
import { print, printJson } from '../../terminal/print/output.ts';
import { requireSetting, valueText } from './setting.ts';
import { activeConfig, valueAt } from './values.ts';

/** Prints the value of one setting, as `config set` takes it. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const { key } = requireSetting(args[0] ?? '');
  const { config } = await activeConfig(paths);
  const { value, source } = valueAt(config, key);
  if (value === undefined)
    throw new SvcError('usage', `${key} is not set.`, { hint: 'See: svc preset list' });
  if (json) printJson({ setting: key, value, source });
  else print(oneLine(valueText(value)));
  return 0;
}
