import type { CommandSpec, FlagSpec } from '../commands.ts';
import type { Flags } from '../context.ts';

/** The form of a command for the reader. tools/build.mjs writes it into the quick commands. */
export type CommandForm = Pick<CommandSpec, 'name' | 'args'> & { flags: readonly FlagForm[] };
export type FlagForm = Pick<FlagSpec, 'name' | 'short' | 'value' | 'many'>;

/** A command line in its parts. */
export interface Line {
  /** The words of the command and its arguments. */
  words: string[];
  /** By long name. */
  flags: Map<string, Use[]>;
  unknown: string | null;
}

/** One use of a flag, and the word after it. */
interface Use {
  value: string | undefined;
  next: string | undefined;
}

export interface Arguments {
  args: string[];
  flags: Flags;
}

/**
 * Separates the flags of a command line from its words.
 *
 * 1. Values stay text, and `--no-x` is a flag with that name.
 * 2. A flag with a value takes the next word, unless that looks like a flag.
 * 3. After `--` everything is a word.
 * Returns the first flag outside `flags` as `unknown`, with the words before it.
 */
export function splitLine(argv: readonly string[], flags: readonly FlagForm[]): Line {
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length;
  const line: Line = { words: [], flags: new Map(), unknown: null };
  for (let index = 0; index < end; index += 1) {
    const word = argv[index] ?? '';
    const next = index + 1 < end ? argv[index + 1] : undefined;
    if (!word.startsWith('-') || word === '-') line.words.push(word);
    else if (isVersion(word) && line.words.length === 0) line.words.push('version');
    else if (addFlags(line, word, next, flags)) index += 1;
    if (line.unknown !== null) return line;
  }
  line.words.push(...argv.slice(end + 1));
  return line;
}

function isVersion(word: string): boolean {
  return word === '--version' || word === '-v';
}

/** Adds the flag of a word, or each of `-fn`. Returns whether the next word is its value. */
function addFlags(
  line: Line,
  word: string,
  next: string | undefined,
  flags: readonly FlagForm[],
): boolean {
  const isLong = word.startsWith('--');
  const [long, ...texts] = word.slice(2).split('=');
  for (let index = 1; index < word.length; index += 1) {
    const flag = flags.find(({ name, short }) => (isLong ? name === long : short === word[index]));
    if (flag === undefined) {
      line.unknown = word;
      return false;
    }
    if (isLong) return addFlag(line, flag, texts.length === 0 ? undefined : texts.join('='), next);
    const rest = word.slice(index + 1);
    if (flag.value !== undefined && rest !== '')
      return addFlag(line, flag, rest.replace(/^=/, ''), next);
    if (addFlag(line, flag, undefined, rest === '' ? next : undefined)) return true;
  }
  return false;
}

function addFlag(
  { flags }: Line,
  flag: FlagForm,
  value: string | undefined,
  next: string | undefined,
): boolean {
  const joins =
    value === undefined && flag.value !== undefined && next !== undefined && !looksLikeFlag(next);
  const use = { value: joins ? next : value, next };
  flags.set(flag.name, [...(flags.get(flag.name) ?? []), use]);
  return joins;
}

/** A negative number is a value. */
function looksLikeFlag(word: string): boolean {
  return word.startsWith('-') && word !== '-' && !/^-[\d.]/.test(word);
}

/** A mistake in a line. The texts are in command-line.ts, which no quick command needs. */
export class Misuse extends Error {
  readonly kind: MisuseKind;
  /** The flag or argument. */
  readonly subject: string;

  constructor(kind: MisuseKind, subject: string) {
    super(kind);
    this.kind = kind;
    this.subject = subject;
  }
}

export type MisuseKind =
  | 'flag_unknown'
  | 'flag_twice'
  | 'flag_with_value'
  | 'flag_without_value'
  | 'argument_empty'
  | 'argument_missing'
  | 'argument_extra';

/** The arguments and flags of a command. Throws Misuse. */
export function readArguments(spec: CommandForm, args: string[], line: Line): Arguments {
  const flags: Record<string, Flags[string]> = {};
  for (const [name, uses] of line.flags) {
    const flag = spec.flags.find((flag) => flag.name === name);
    if (flag === undefined) throw new Misuse('flag_unknown', `--${name}`);
    flags[name] = readFlag(flag, uses);
  }
  checkCount(spec, args);
  return { args, flags };
}

function readFlag({ name, value: shown, many }: FlagForm, uses: readonly Use[]): Flags[string] {
  if (uses.length > 1 && many !== true && name !== 'json') throw new Misuse('flag_twice', name);
  const values = uses.flatMap(({ value }) => value ?? []);
  if (shown === undefined) {
    if (values.length === 0) return true;
    throw new Misuse('flag_with_value', name);
  }
  if (values.length === uses.length) return values.length > 1 ? values : (values[0] ?? '');
  if (shown.startsWith('[')) return true;
  throw new Misuse('flag_without_value', name);
}

function checkCount(spec: CommandForm, args: readonly string[]): void {
  const names = argumentNames(spec);
  const missing = names[args.length];
  const empty = names[args.indexOf('')];
  if (empty !== undefined && empty !== '[prompt…]') throw new Misuse('argument_empty', empty);
  if (missing?.startsWith('<')) throw new Misuse('argument_missing', missing);
  // `<id…>` and `[words…]` take any number.
  if (args.length > names.length && names.at(-1)?.includes('…') !== true)
    throw new Misuse('argument_extra', args[names.length] ?? '');
}

export function argumentNames({ args }: CommandForm): string[] {
  return args.split(' ').filter((name) => name !== '');
}
