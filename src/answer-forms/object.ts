import { JsonEnd } from './json-end.ts';
import { afterSpace, type Match, type Matched } from './pattern.ts';

/**
 * A call as a JSON object. Its name and its arguments are two keys, in any order, of the object or
 * of an object in it.
 */

const NAMES: ReadonlySet<string> = new Set([
  'name',
  'tool_name',
  'function',
  'tool',
  'function_name',
]);
const ARGUMENTS: ReadonlySet<string> = new Set([
  'arguments',
  'parameters',
  'args',
  'input',
  'tool_input',
]);
/** Letters of a key, and of any other value than the name and the arguments. */
const SMALL_MAX = 256;
/**
 * Letters before the arguments, or of arguments before the name. Each piece of the answer reads
 * them again.
 */
const EARLY_MAX = 16_384;

/** Matches a call up to its arguments. `mayOmitArguments`: also a call that has none. */
export function objectHead(mayOmitArguments: boolean): Match {
  return (text, from, names) => {
    const opened = matchLetter(text, from, '{');
    return typeof opened === 'number' ? matchKeys(text, opened, names, mayOmitArguments) : opened;
  };
}

function matchKeys(
  text: string,
  from: number,
  names: readonly string[],
  mayOmitArguments: boolean,
): Matched {
  let at = from;
  let name: string | null = null;
  let earlyArguments: string | undefined;
  for (;;) {
    at = afterSpace(text, at);
    if (at - from > EARLY_MAX) return 'none';
    if (at >= text.length) return 'partial';
    if (text[at] === '}') {
      if (name === null || (earlyArguments === undefined && !mayOmitArguments)) return 'none';
      return { end: at, name, earlyArguments: earlyArguments ?? '{}' };
    }
    if (text[at] === ',') at += 1;
    const key = readShortText(text, at);
    if (typeof key === 'string') return key;
    const value = matchLetter(text, key.end, ':');
    if (typeof value === 'string') return value;
    const isArguments = ARGUMENTS.has(key.text);
    if (isArguments && name !== null) return { end: value, name };
    at = afterSpace(text, value);
    if (at >= text.length) return 'partial';
    if (isArguments) {
      const end = findValueEnd(text, at, EARLY_MAX);
      if (typeof end === 'string') return end;
      earlyArguments = text.slice(at, end);
      at = end;
    } else if (NAMES.has(key.text) && text[at] === '{') at += 1;
    else if (NAMES.has(key.text) && name === null) {
      const written = readShortText(text, at);
      if (typeof written === 'string') return written;
      if (!names.includes(written.text)) return 'none';
      name = written.text;
      at = written.end;
      if (earlyArguments !== undefined) return { end: at, name, earlyArguments };
    } else {
      const end = findValueEnd(text, at, SMALL_MAX);
      if (typeof end === 'string') return end;
      at = end;
    }
  }
}

/** Matches a key with its value after the arguments, such as an id. */
export const laterKey: Match = (text, from) => {
  const comma = matchLetter(text, from, ',');
  if (typeof comma === 'string') return comma;
  const key = readShortText(text, comma);
  if (typeof key === 'string') return key;
  const value = matchLetter(text, key.end, ':');
  if (typeof value === 'string') return value;
  const end = findValueEnd(text, value, SMALL_MAX);
  return typeof end === 'string' ? end : { end, name: null };
};

/** Matches `{"weather": {…}}` up to its arguments. */
export const nameAsKey: Match = (text, from, names) => {
  const opened = matchLetter(text, from, '{');
  if (typeof opened === 'string') return opened;
  const key = readShortText(text, opened);
  if (typeof key === 'string') return key;
  const value = matchLetter(text, key.end, ':');
  if (typeof value === 'string') return value;
  return names.includes(key.text) ? { end: value, name: key.text } : 'none';
};

function matchLetter(text: string, from: number, letter: string): number | 'none' | 'partial' {
  const at = afterSpace(text, from);
  if (at >= text.length) return 'partial';
  return text[at] === letter ? at + 1 : 'none';
}

/** Reads a short JSON string. */
function readShortText(
  text: string,
  from: number,
): { text: string; end: number } | 'none' | 'partial' {
  const begin = matchLetter(text, from, '"');
  if (typeof begin === 'string') return begin;
  const end = text.indexOf('"', begin);
  if ((end < 0 ? text.length : end) - begin > SMALL_MAX) return 'none';
  return end < 0 ? 'partial' : { text: text.slice(begin, end), end: end + 1 };
}

function findValueEnd(text: string, from: number, most: number): number | 'none' | 'partial' {
  const end = new JsonEnd().push(text, from);
  if ((end ?? text.length) - from > most) return 'none';
  return end ?? 'partial';
}
