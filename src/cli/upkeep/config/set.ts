import { maskedValue } from '../../../config/layers.ts';
import { settingPath } from '../../../config/setting-keys.ts';
import { writeSetting } from '../../../config/user-file.ts';
import { jsonText } from '../../../config/value.ts';
import { SvcError } from '../../../errors.ts';
import { oneLine } from '../../../logs/plain.ts';
import type { Context } from '../../terminal/context.ts';
import { absoluteModel } from '../../terminal/parse/absolute-model.ts';
import { note, print, printJson } from '../../terminal/print/output.ts';
import { appliedText, applyNow, NOTHING } from './apply.ts';
import { findOverride, maskedText, requireSetting, type Setting, valueText } from './setting.ts';
import { activeConfig, valueAt } from './values.ts';

/** Writes one setting into the configuration file, and applies it if it may change at once. */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const setting = requireSetting(args[0] ?? '');
  const { key } = setting;
  const value = flags.remove === true ? undefined : readValue(setting, args[1]);
  if (flags.remove === true && args[1] !== undefined)
    throw new SvcError('usage', '--remove takes no value.');
  await writeSetting(paths.config, key, value);
  const applied = await applyNow(paths);
  const { config } = await activeConfig(paths);
  const present = valueAt(config, key);
  if (json) return printJson({ setting: key, ...present, ...(applied ?? NOTHING) });
  print(
    value === undefined
      ? oneLine(`${key} is removed from ${paths.config}.`)
      : oneLine(`${key} is ${maskedText(setting, value)} in ${paths.config}.`),
  );
  if (applied !== null && applied.applied.length + applied.after_restart.length > 0)
    note(appliedText(applied));
  const stronger = findOverride(setting, present.source);
  if (stronger !== null)
    note(`It has no effect while ${stronger} says ${valueText(present.value)}.`);
  return 0;
}

/** The value, checked. Throws usage. */
function readValue({ key, spec }: Setting, text: string | undefined): unknown {
  if (text === undefined)
    throw new SvcError('usage', `The value of ${key} is missing: ${spec.expects}.`, {
      hint:
        `For example: svc config set ${key} '${valueText(spec.default)}'. ` +
        `To use the default: svc config set ${key} --remove`,
    });
  // A list or an object is JSON. A list of words may come without brackets, as in a variable.
  const isJson = /^\s*[[{"]/.test(text) || spec.fromText === undefined;
  const setting = isJson ? jsonText(text) : spec.fromText?.(text);
  // The daemon has another working folder than this shell.
  const placed = key === 'model' && typeof setting === 'string' ? absoluteModel(setting) : setting;
  const value = spec.read(placed);
  if (value !== undefined) return value;
  const problem = spec.findProblem?.(placed) ?? null;
  throw new SvcError(
    'usage',
    problem === null
      ? `${key} must be ${spec.expects}, not ${maskedValue(spec, text)}.`
      : `${settingPath(key)[0]} ${problem}.`,
    { param: key },
  );
}
