import { adapters } from '../../config/providers/adapters.ts';
import { knownProviders } from '../../config/providers/known-providers.ts';
import { settingWords } from '../../config/setting-keys.ts';
import { LOG_LEVELS, RECOVERIES, RUN_STATES, SCOPES } from '../../contract/words.ts';
import { programs } from '../launch/programs.ts';
import {
  type CommandSpec,
  commands,
  type FlagSpec,
  groupOf,
  shortSummary,
} from '../terminal/commands.ts';

/** Commands and groups, each once, and `help`. */
export function firstWords(): { word: string; summary: string }[] {
  const names = new Set(commands.map(({ name }) => name.split(' ', 1)[0] ?? name));
  const words = [...names].map((word) => ({
    word,
    summary: shortSummary(
      commands.find(({ name }) => name === word)?.summary ??
        `${groupOf(word)
          .map(({ name }) => name.split(' ')[1])
          .join(', ')}`,
    ),
  }));
  return [...words, { word: 'help', summary: 'Show what a command does.' }];
}

/** Names that only this machine knows. A script asks `svc completion --list` for them. */
export const KINDS = [
  'runs',
  'models',
  'providers',
  'settings',
  'tokens',
  'presets',
  'catalogue',
  'nodes',
  'builds',
] as const;
export type Kind = (typeof KINDS)[number];

/** The completions of a value: fixed words, or names of a kind. Null: free text or a file. */
export type Values = { words: readonly string[] } | { kind: Kind } | null;

/** By `command --flag`, or by `--flag` of any command. */
const FLAG_VALUES: Readonly<Record<string, Values>> = {
  '--provider': { kind: 'providers' },
  '--model': { kind: 'models' },
  '--run': { kind: 'runs' },
  '--conversation': { kind: 'runs' },
  '--preset': { kind: 'presets' },
  '--like': { words: Object.keys(knownProviders) },
  '--level': { words: LOG_LEVELS },
  '--log-level': { words: LOG_LEVELS },
  '--recovery': { words: RECOVERIES },
  '--adapter': { words: Object.keys(adapters) },
  'machines --format': { words: ['mermaid', 'svg', 'json', 'ascii'] },
  'usage --by': { words: ['model', 'provider', 'client', 'day'] },
  'token create --scope': { words: SCOPES },
  'runs list --state': { words: RUN_STATES },
};

export function valuesOfFlag(spec: CommandSpec, { name, value }: FlagSpec): Values {
  return FLAG_VALUES[`${spec.name} --${name}`] ?? FLAG_VALUES[`--${name}`] ?? choices(value);
}

/** Groups whose argument names one of a kind, and how the argument is called. */
const ARGUMENTS: readonly (readonly [group: string, argument: RegExp, kind: Kind])[] = [
  ['runs', /\bid\b/, 'runs'],
  ['model', /\bref\b/, 'catalogue'],
  ['model', /\b(id|model)\b/, 'models'],
  ['provider', /\bid\b/, 'providers'],
  ['config', /\bsetting\b/, 'settings'],
  ['token', /\bname\b/, 'tokens'],
  ['preset', /\bname\b/, 'presets'],
  ['nodes', /\bid\b/, 'nodes'],
  ['engine', /\bbuild\b/, 'builds'],
];

export function valuesOfArgument({ name, args }: CommandSpec): Values {
  if (name === 'completion') return { words: ['bash', 'zsh', 'fish'] };
  if (name === 'launch') return { words: Object.keys(programs) };
  if (name === 'provider add') return { words: Object.keys(knownProviders) };
  // The name is new.
  if (name === 'preset add') return null;
  const found = ARGUMENTS.find(
    ([group, argument]) => name.startsWith(`${group} `) && argument.test(args),
  );
  return found === undefined ? choices(args.split(' ', 1)[0]) : { kind: found[2] };
}

/** The command with a second argument, which depends on the first: a setting and its value. */
export const SET = 'config set';

/** The completions of a setting's value, by its name. The others are free texts. */
export function valuesOfSettings(): Record<string, NonNullable<Values>> {
  const words = Object.entries(settingWords()).map(([key, words]) => [key, { words }]);
  return { ...Object.fromEntries(words), ...NAMED_BY };
}

const NAMED_BY: Readonly<Record<string, NonNullable<Values>>> = {
  model: { kind: 'models' },
  default_provider: { kind: 'providers' },
  default_cloud_provider: { kind: 'providers' },
};

/** The words of other programs, with the command that each means. */
export function aliases(): [word: string, spec: CommandSpec][] {
  return commands.flatMap((spec) =>
    (spec.alias?.words ?? []).map((word): [string, CommandSpec] => [word, spec]),
  );
}

/** The choices of `<http|grpc|socket>`; null for free text. */
function choices(shown: string | undefined): Values {
  const inner = shown?.replace(/^[<[]|[>\]]$/g, '') ?? '';
  return /^[\w-]+(\|[\w-]+)+$/.test(inner) ? { words: inner.split('|') } : null;
}
