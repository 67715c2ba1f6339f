import sade from 'sade';
import { suggest } from '../../../config/suggest.ts';
import { SvcError } from '../../../errors.ts';
import { type CommandSpec, commands, flagsOf, globalFlags, groupOf } from '../commands.ts';
import type { Flags } from '../context.ts';
import {
  type Arguments,
  argumentNames,
  type CommandForm,
  type FlagForm,
  type Line,
  Misuse,
  type MisuseKind,
  readArguments,
  splitLine,
} from './line.ts';

export interface Actions<T> {
  run(spec: CommandSpec, args: string[], flags: Flags): T;
  /** Help for everything (an empty name), for a group such as `runs`, or for a command. */
  help(name: string): T;
}

/** The arguments that sade gives to an action. */
interface Options {
  _: string[];
}

/**
 * Reads a command line, and has sade call the action of its words. sade would print and exit by
 * itself for a wrong line, so such a line does not reach it. Throws usage.
 */
export function dispatch<T>(argv: readonly string[], { run, help }: Actions<T>): T {
  const split = splitLine(argv, FLAGS);
  const words = withoutAlias(split.words);
  const line = { ...split, words };
  if (line.unknown !== null) throw unknownFlag(line.unknown, words);
  const [first] = words;
  const isHelp = first === 'help';
  if (line.flags.has('help')) return help(helpName(isHelp ? words.slice(1) : words));
  // Only these are registered: all commands take 1 ms longer.
  const specs = commands.filter(({ name }) => name.split(' ', 1)[0] === first);
  if (specs.length === 0 && first !== undefined && !isHelp) throw unknownCommand(first);
  const program = sade('svc').command('help', '', { default: true });
  program.action(({ _: name }: Options) => {
    const flag = [...line.flags.keys()].find((flag) => flag !== 'json');
    if (flag !== undefined) throw unknownFlag(`--${flag}`, words);
    return help(helpName(name));
  });
  for (const spec of specs)
    program.command(spec.name).action(({ _: rest }: Options) => {
      const { args, flags } = read(spec, rest, line);
      return run(spec, args, flags);
    });
  const { handler, args } = program.parse(['node', 'svc', '--', ...words], {
    lazy: true,
  }) as sade.LazyOutput;
  return handler(...args);
}

/** The words of the command that an alias means, also after `help`. */
function withoutAlias(words: readonly string[]): string[] {
  const [first = '', ...rest] = words;
  if (first === 'help') return [first, ...withoutAlias(rest)];
  const spec = commands.find(({ alias }) => alias?.words.includes(first));
  if (spec === undefined) return [...words];
  return [...spec.name.split(' '), ...(spec.alias?.isReversed ? rest.toReversed() : rest)];
}

/** The form of a command for the reader, with every flag that it accepts. */
export function formOf(spec: CommandSpec): CommandForm {
  return { ...spec, flags: flagsOf(spec) };
}

/** A name or a letter means the same in every command. */
const FLAGS: readonly FlagForm[] = commands.flatMap(flagsOf);

function read(spec: CommandSpec, args: string[], line: Line): Arguments {
  try {
    return readArguments(formOf(spec), args, line);
  } catch (error) {
    throw error instanceof Misuse ? misuseErrorOf(error, spec, line) : error;
  }
}

/** The command or the group that the words begin with. Throws usage for other words. */
function helpName(words: readonly string[]): string {
  for (let count = words.length; count > 0; count -= 1) {
    const name = words.slice(0, count).join(' ');
    if (commands.some((command) => command.name === name)) return name;
  }
  const name = words.join(' ');
  if (name !== '' && groupOf(name).length === 0) throw unknownCommand(name);
  return name;
}

/** The error for a line that its command cannot read. */
function misuseErrorOf({ kind, subject }: Misuse, spec: CommandSpec, line: Line): SvcError {
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
function unknownFlag(word: string, words: readonly string[]): SvcError {
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

/** The error for words without a command. */
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

/** The names that similar programs have for a command. */
const SYNONYMS: Readonly<Record<string, string>> = {
  get: 'model pull',
  remove: 'model remove',
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
