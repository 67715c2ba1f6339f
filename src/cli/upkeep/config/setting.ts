import type { Source } from '../../../config/layers.ts';
import { isRemoved } from '../../../config/renamed.ts';
import { findSetting, settingKeys } from '../../../config/setting-keys.ts';
import { suggest } from '../../../config/suggest.ts';
import { SvcError } from '../../../errors.ts';

export type Setting = NonNullable<ReturnType<typeof findSetting>>;

/** The setting of this name. Throws usage, with the most similar name. */
export function requireSetting(name: string): Setting {
  const found = findSetting(name);
  if (found !== null) return found;
  if (isRemoved(name))
    throw new SvcError('usage', `${name} is no longer a setting.`, {
      hint: 'svc uses its own value. To remove it from the file: svc config edit',
    });
  if (name === 'providers' || name.startsWith('providers.'))
    throw new SvcError('usage', `${name} is not a single setting.`, {
      hint: 'Providers have their own commands: svc provider add, svc provider set --help',
    });
  const whole = findSetting(name.split('.')[0] ?? '');
  // Only a list or an object has parts.
  if (whole !== null && typeof whole.spec.default === 'object' && whole.spec.default !== null)
    throw new SvcError('usage', `${name} is a part of the setting ${whole.key}.`, {
      hint:
        `Set all of it: svc config set ${whole.key} '<json>'. It shows with: ` +
        `svc config get ${whole.key}`,
    });
  const keys = settingKeys();
  // A limit may be named without its group.
  const near =
    keys.find((key) => key.endsWith(`.${name}`)) ?? suggest(name, keys) ?? findSimilar(name, keys);
  throw new SvcError('usage', `There is no setting ${JSON.stringify(name)}.`, {
    hint: near === null ? 'See: svc config show --json' : `Did you mean: ${near}`,
  });
}

/** The shortest key that has most of the words: budget_per_day for budget.daily. */
function findSimilar(name: string, keys: readonly string[]): string | null {
  const wordsOf = (text: string) => text.split(/[._-]/).filter((word) => word.length > 2);
  const wanted = wordsOf(name);
  const shared = (key: string) => wordsOf(key).filter((word) => wanted.includes(word)).length;
  const [best = ''] = keys.toSorted((a, b) => shared(b) - shared(a) || a.length - b.length);
  return shared(best) === 0 ? null : best;
}

/** A value as `config set` takes it: text without quotes, anything else as JSON. */
export function valueText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** A value as `config set` takes it, without a secret. */
export function maskedText({ spec }: Setting, value: unknown): string {
  const text = valueText(value);
  return spec.mask?.(text) ?? text;
}

/** The source that overrides the file for this setting; null if the file decides. */
export function findOverride({ spec }: Setting, source: Source | undefined): string | null {
  if (source === 'environment') return `the variable ${spec.env} of the daemon`;
  return source === 'flag' ? 'a flag of the daemon' : null;
}
