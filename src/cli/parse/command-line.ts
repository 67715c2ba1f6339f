import sade from 'sade';
import { SvcError } from '../../errors.ts';
import {
  type CommandSpec,
  commands,
  type FlagSpec,
  flagsOf,
  globalFlags,
  groupOf,
} from '../commands.ts';
import type { Flags } from '../context.ts';
import { unknownCommand, unknownFlag } from './unknown.ts';

export interface Actions<T> {
  run(spec: CommandSpec, args: string[], flags: Flags): T;
  /** Help for everything (an empty name), for a group such as `runs`, or for a command. */
  help(name: string): T;
}

/**
 * Reads a command line with sade, and calls the action that it asks for.
 *
 * 1. Values stay text, `--no-x` is a flag with that name, and after `--` everything is an argument.
 * 2. For a wrong command line sade prints and exits by itself. Such a line does not reach it.
 * 3. Only the commands that begin with the first word are registered: all take 1 ms longer.
 * Throws usage.
 */
export function dispatch<T>(argv: readonly string[], { run, help }: Actions<T>): T {
  const line = splitLine(argv);
  const { words, flags } = line;
  const [first] = words;
  const specs = commands.filter(({ name }) => name.split(' ', 1)[0] === first);
  if (specs.length === 0 && first !== undefined && first !== 'help') throw unknownCommand(first);
  const program = sade('svc').command('help', '', { default: true });
  for (const flag of globalFlags) addOption(program, flag);
  program.action(({ _: name }: Options) => help(helpName(name)));
  for (const spec of specs) {
    program.command(spec.name);
    for (const flag of flagsOf(spec)) addOption(program, flag);
    program.action((options: Options) => {
      const { args, flags } = readArguments(spec, options, line);
      return run(spec, args, flags);
    });
  }
  let helpFor: string | null = null;
  program.help = () => {
    helpFor = helpName(first === 'help' ? words.slice(1) : words);
  };
  const unknown = (flag: string) => {
    throw unknownFlag(flag, words);
  };
  const found: sade.LazyOutput | undefined = program.parse(
    ['node', 'svc', ...flags, '--', ...words],
    { lazy: true, string: VALUED, unknown },
  );
  return helpFor === null ? found.handler(...found.args) : help(helpFor);
}

/** sade reads `--no-x` as x. The help is ours, so it needs no summaries. */
function addOption(program: sade.Sade, { name }: FlagSpec): void {
  program.option(`--${name.replace(/^no-/, '')}`);
}

/** The command or the group that the words begin with. Throws usage when there is none. */
function helpName(words: readonly string[]): string {
  for (let count = words.length; count > 0; count -= 1) {
    const name = words.slice(0, count).join(' ');
    if (commands.some((command) => command.name === name)) return name;
  }
  const name = words.join(' ');
  if (name !== '' && groupOf(name).length === 0) throw unknownCommand(name);
  return name;
}

/** Flags by name and the words of the line, as sade gives them to an action. */
type Options = Record<string, unknown> & { _: string[] };

interface Arguments {
  args: string[];
  flags: Flags;
}

/**
 * Checks what sade read: each flag once and in its form, and the number of arguments. Throws usage.
 */
function readArguments(spec: CommandSpec, { _: args, ...options }: Options, line: Line): Arguments {
  const flags: Record<string, string | true | readonly string[]> = {};
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    // `--no-x` is x: false for sade.
    const full = value === false ? `no-${name}` : name;
    const flag = flagsOf(spec).find(({ name }) => name === full);
    if (flag === undefined) throw unknownFlag(`--${full}`, line.words);
    flags[full] = readFlag(spec, flag, value, line);
  }
  checkCount(spec, args);
  return { args, flags };
}

function readFlag(
  spec: CommandSpec,
  { name, value: shown, many }: FlagSpec,
  value: unknown,
  { bare }: Line,
): string | true | readonly string[] {
  if (Array.isArray(value) && many !== true) {
    if (name === 'json') return true;
    throw wrong(spec, `--${name} is given twice.`);
  }
  if (shown === undefined) {
    if (typeof value === 'boolean') return true;
    throw wrong(spec, `--${name} takes no value.`);
  }
  if (!bare.has(name)) return Array.isArray(value) ? value.map(String) : String(value);
  if (shown.startsWith('[')) return true;
  const next = bare.get(name);
  if (next === undefined) throw wrong(spec, `--${name} needs a value: --${name} ${shown}`);
  throw wrong(
    spec,
    `--${name} needs a value, and ${next} looks like a flag.`,
    `To give a value that begins with a dash: --${name}=${next}`,
  );
}

function checkCount(spec: CommandSpec, args: readonly string[]): void {
  const names = spec.args.split(' ').filter((name) => name !== '');
  const missing = names[args.length];
  const empty = names[args.indexOf('')];
  if (empty !== undefined && empty !== '[prompt…]')
    throw wrong(spec, `${empty} of svc ${spec.name} must not be empty.`);
  if (missing?.startsWith('<'))
    throw wrong(
      spec,
      `svc ${spec.name} needs ${missing}.`,
      `For example: svc ${spec.examples[0] ?? `${spec.name} ${spec.args}`}`,
    );
  // `<id…>` and `[words…]` take any number.
  if (args.length <= names.length || names.at(-1)?.includes('…') === true) return;
  const extra = JSON.stringify(args[names.length]);
  const takes = names.length === 0 ? 'no arguments' : `only ${names.join(' ')}`;
  throw wrong(spec, `svc ${spec.name} takes ${takes}; ${extra} is one too many.`);
}

function wrong(
  spec: CommandSpec,
  message: string,
  hint = `See: svc ${spec.name} --help`,
): SvcError {
  return new SvcError('usage', message, { hint });
}

/** A command line in the one form that sade reads without guessing. */
interface Line {
  /** Each flag in its long form, with its value behind `=`. */
  flags: string[];
  /** The words of the command and its arguments. */
  words: string[];
  /** Flags without their value, and the word that comes after each. */
  bare: Map<string, string | undefined>;
}

const FLAGS = commands.flatMap(flagsOf);
const BY_NAME = new Map(FLAGS.map((flag) => [flag.name, flag]));
const BY_LETTER = new Map(FLAGS.map((flag) => [flag.short, flag]));
const VERSION = ['--version', '-v'];

/** Flags that take a value. A name means the same in every command. */
const VALUED = FLAGS.filter(({ value }) => value !== undefined).map(({ name }) => name);

/**
 * Separates the flags of a command line from its words, because the parser of sade guesses.
 * It reads the word after a switch as its value. It reads a lone `-` as a flag.
 * Throws usage for a flag that no command has.
 */
function splitLine(argv: readonly string[]): Line {
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length;
  const line: Line = { flags: [], words: [], bare: new Map() };
  for (let index = 0; index < end; index += 1) {
    const word = argv[index] ?? '';
    if (!word.startsWith('-') || word === '-') line.words.push(word);
    else if (VERSION.includes(word) && line.words.length === 0) line.words.push('version');
    else if (addFlags(line, word, index + 1 < end ? argv[index + 1] : undefined)) index += 1;
  }
  line.words.push(...argv.slice(end + 1));
  return line;
}

/** Adds the flag of a word, or each of `-fn`. Returns whether the next word is its value. */
function addFlags(line: Line, word: string, next: string | undefined): boolean {
  if (word.startsWith('--')) {
    const [name = '', ...value] = word.slice(2).split('=');
    const flag = BY_NAME.get(name);
    if (flag === undefined) throw unknownFlag(word, line.words);
    return addFlag(line, flag, value.length === 0 ? undefined : value.join('='), next);
  }
  for (let index = 1; index < word.length; index += 1) {
    const flag = BY_LETTER.get(word[index]);
    if (flag === undefined) throw unknownFlag(word, line.words);
    const rest = word.slice(index + 1);
    if (flag.value !== undefined && rest !== '')
      return addFlag(line, flag, rest.replace(/^=/, ''), next);
    if (addFlag(line, flag, undefined, rest === '' ? next : undefined)) return true;
  }
  return false;
}

function addFlag(
  { flags, bare }: Line,
  { name, value }: FlagSpec,
  given: string | undefined,
  next: string | undefined,
): boolean {
  const joins =
    given === undefined && value !== undefined && next !== undefined && !looksLikeFlag(next);
  if (value !== undefined && given === undefined && !joins) bare.set(name, next);
  const text = joins ? next : given;
  flags.push(text === undefined ? `--${name}` : `--${name}=${text}`);
  return joins;
}

/** A negative number is a value. */
function looksLikeFlag(word: string): boolean {
  return word.startsWith('-') && word !== '-' && !/^-[\d.]/.test(word);
}
