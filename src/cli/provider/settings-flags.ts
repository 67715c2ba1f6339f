import { adapters } from '../../config/providers/adapters.ts';
import { brief } from '../../config/text.ts';
import { SvcError } from '../../errors.ts';
import { limitSpecs } from '../../limits.ts';
import type { Flags } from '../terminal/context.ts';
import { listFlag, textFlag, wholeFlag } from '../terminal/parse/flag-values.ts';

/** The settings of a provider as flags, for `svc provider add` and `svc provider set`. */

/** The given settings. `none` unsets a value. A header or an option without a text is null. */
export function settingsIn(flags: Flags): Record<string, unknown> {
  const texts = {
    base_url: textFlag(flags, 'base-url'),
    like: textFlag(flags, 'like'),
    adapter: textFlag(flags, 'adapter'),
    kind: textFlag(flags, 'kind'),
    model: textFlag(flags, 'model'),
    key: textFlag(flags, 'key'),
    key_env: textFlag(flags, 'key-env'),
  };
  const values = Object.entries({
    ...texts,
    max_runs: wholeFlag(flags, 'max-runs', { min: 1, max: limitSpecs.provider_runs.max }),
    options: readPairs(textFlag(flags, 'options')?.split(','), OPTION),
    headers: readPairs(listFlag(flags, 'header'), HEADER),
  }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    values.map(([field, value]) => [
      field,
      MAY_BE_NONE.has(field) && value === 'none' ? null : value,
    ]),
  );
}

const MAY_BE_NONE: ReadonlySet<string> = new Set(['key', 'model', 'base_url', 'like']);

interface Pairs {
  flag: string;
  mark: string;
  example: string;
}
const OPTION: Pairs = { flag: 'options', mark: '=', example: 'region=us-east-1' };
const HEADER: Pairs = { flag: 'header', mark: ':', example: '"X-Team: blue"' };

/** Names with their texts. Throws usage, without the texts: they may be secret. */
function readPairs(
  texts: readonly string[] | undefined,
  { flag, mark, example }: Pairs,
): Record<string, string | null> | undefined {
  if (texts === undefined) return undefined;
  const pairs = texts.map((pair) => {
    const at = pair.indexOf(mark);
    const name = pair.slice(0, at).trim();
    if (at < 0 || name === '')
      throw new SvcError('usage', `--${flag} must be a name and a text, such as ${example}.`, {
        param: flag,
      });
    return [name, pair.slice(at + 1).trim() || null] as const;
  });
  return Object.fromEntries(pairs);
}

/** An error about a setting, in the words of the command line. `where` begins its message. */
export function toFlagError(
  thrown: unknown,
  { where, id, command }: { where: string; id: string; command: string },
): unknown {
  const prefix = `${where}: provider ${brief(id)}: `;
  if (!(thrown instanceof SvcError) || !thrown.message.startsWith(prefix)) return thrown;
  const { param } = thrown;
  const what = thrown.message.slice(prefix.length);
  if (param === 'id')
    return usage(`A provider cannot be named ${JSON.stringify(id)}: ${what}`, param, command);
  const flag = param === null ? undefined : FLAGS[param];
  const isAbout = flag !== undefined && param !== null && what.startsWith(`${param} `);
  const subject = isAbout ? `${flag}${what.slice(param.length)}` : capital(what);
  const option = param !== null && flag === undefined && isOption(param);
  return usage(
    subject.replace(/\bbase_url\b/g, '--base-url').replace(/\bkey_env\b/g, '--key-env'),
    option ? 'options' : param,
    command,
    option ? `Say it with --options ${param}=<text>. See: ${command} --help` : undefined,
  );
}

const FLAGS: Readonly<Record<string, string>> = {
  base_url: '--base-url',
  like: '--like',
  adapter: '--adapter',
  kind: '--kind',
  model: '--model',
  key: '--key',
  key_env: '--key-env',
  headers: '--header',
  options: '--options',
  max_runs: '--max-runs',
};

function isOption(name: string): boolean {
  return Object.values(adapters).some(({ options }) => Object.hasOwn(options, name));
}

function usage(message: string, param: string | null, command: string, hint?: string): SvcError {
  return new SvcError('usage', message, {
    hint: hint ?? `See: ${command} --help`,
    ...(param === null ? {} : { param: param.replace('_', '-') }),
  });
}

function capital(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}
