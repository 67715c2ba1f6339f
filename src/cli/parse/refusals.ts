import { suggest } from '../../config/suggest.ts';
import { SvcError } from '../../errors.ts';
import { type CommandSpec, commands, flagsOf, globalFlags } from '../commands.ts';
import { argumentNames, type Line, type Misuse, type MisuseKind } from './line.ts';

/** The error for a line that its command cannot read. */
export function misuse({ kind, subject }: Misuse, spec: CommandSpec, line: Line): SvcError {
  if (kind === 'flag_unknown') return unknownFlag(subject, line.words);
  const [message, hint = `See: svc ${spec.name} --help`] = TEXTS[kind](subject, spec, line);
  return new SvcError('usage', message, { hint });
}

type Text = (name: string, spec: CommandSpec, line: Line) => readonly [string, hint?: string];

const TEXTS: Readonly<Record<Exclude<MisuseKind, 'flag_unknown'>, Text>> = {
  flag_twice: (name) => [`--${name} is given twice.`],
  flag_with_value: (name) => [`--${name} takes no value.`],
  flag_without_value: (name, spec, { flags }) => {
    const next = flags.get(name)?.find(({ value }) => value === undefined)?.next;
    const form = flagsOf(spec).find((flag) => flag.name === name)?.value;
    return next === undefined
      ? [`--${name} needs a value: --${name} ${form}`]
      : [
          `--${name} needs a value, and ${next} looks like a flag.`,
          `To give a value that begins with a dash: --${name}=${next}`,
        ];
  },
  argument_empty: (name, spec) => [`${name} of svc ${spec.name} must not be empty.`],
  argument_missing: (name, { name: command, args, examples }) => [
    `svc ${command} needs ${name}.`,
    `For example: svc ${examples[0] ?? `${command} ${args}`}`,
  ],
  argument_extra: (name, spec) => {
    const names = argumentNames(spec);
    const takes = names.length === 0 ? 'no arguments' : `only ${names.join(' ')}`;
    return [`svc ${spec.name} takes ${takes}; ${JSON.stringify(name)} is one too many.`];
  },
};

/** The error for a flag that the command of these words does not have. */
export function unknownFlag(word: string, words: readonly string[]): SvcError {
  const spec = commands.find(({ name }) => `${words.join(' ')} `.startsWith(`${name} `));
  const flags = (spec === undefined ? globalFlags : flagsOf(spec)).map(({ name }) => `--${name}`);
  const near = word.startsWith('--') ? suggest(word.split('=', 1)[0] ?? word, flags) : null;
  if (spec === undefined)
    return new SvcError('usage', `There is no flag ${word} before a command.`, {
      hint:
        near === null
          ? 'Flags of a command come after it: svc <command> [flags]'
          : `Did you mean: svc ${near}`,
    });
  const dash =
    spec.args === '[prompt…]'
      ? 'A prompt that begins with a dash comes after --: svc run -- "-1 + 2"'
      : `See: svc ${spec.name} --help`;
  return new SvcError('usage', `svc ${spec.name} has no flag ${word}.`, {
    hint: near === null ? dash : `Did you mean: ${near}`,
  });
}

/** The error for words that are no command. */
export function unknownCommand(name: string): SvcError {
  const isPrompt = name.includes('?') || name.split(/\s+/).length > 3;
  const group = isPrompt ? '' : name.split(' ').slice(0, -1).join(' ');
  const near = synonymOf(name) ?? suggest(name, namesIn(group));
  return new SvcError('usage', `There is no command ${JSON.stringify(name)}.`, {
    hint: isPrompt
      ? `A prompt comes after run: svc run ${JSON.stringify(name)}`
      : near === null
        ? `See: svc ${group === '' ? '' : `${group} `}--help`
        : `Did you mean: svc ${near}`,
  });
}

/** What other tools of this kind call a command. */
const SYNONYMS: Readonly<Record<string, string>> = {
  ls: 'model list',
  list: 'model list',
  ps: 'model ps',
  pull: 'model pull',
  get: 'model pull',
  rm: 'model remove',
  remove: 'model remove',
  show: 'model show',
  load: 'model load',
  unload: 'model unload',
  models: 'model list',
  providers: 'provider list',
  keys: 'provider key',
  history: 'runs list',
  ask: 'run',
  prompt: 'run',
  generate: 'run',
  up: 'start',
  down: 'stop',
  info: 'status',
  log: 'logs',
  update: 'upgrade',
};
const LAST_WORDS: Readonly<Record<string, string>> = {
  ls: 'list',
  rm: 'remove',
  delete: 'remove',
  del: 'remove',
  info: 'show',
  inspect: 'show',
  logs: 'why',
  stop: 'cancel',
  follow: 'attach',
};

/** The command of that meaning, if there is one. */
function synonymOf(name: string): string | null {
  const [first = '', second] = name.split(' ');
  const whole = second === undefined ? (SYNONYMS[first] ?? null) : null;
  const own = second === undefined ? null : `${first} ${LAST_WORDS[second] ?? ''}`;
  const found = whole ?? own;
  return commands.some((spec) => spec.name === found) ? found : null;
}

function namesIn(group: string): string[] {
  const names = commands.map(({ name }) => name);
  return group === ''
    ? [...new Set(names.map((name) => name.split(' ', 1)[0] ?? name))]
    : names.filter((name) => name.startsWith(`${group} `));
}
