import { commands, type FlagSpec, flagsOf } from '../commands.ts';
import { unknownFlag } from './unknown.ts';

/** A command line in the one form that sade reads without guessing. */
export interface Line {
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
export const VALUED = FLAGS.filter(({ value }) => value !== undefined).map(({ name }) => name);

/**
 * Separates the flags of a command line from its words, because the parser of sade guesses.
 * It reads the word after a switch as its value. It reads a lone `-` as a flag.
 * Throws usage for a flag that no command has.
 */
export function splitLine(argv: readonly string[]): Line {
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
