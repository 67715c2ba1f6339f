import { JsonEnd } from './json-end.ts';
import { afterSpace, type Match, type Matched } from './pattern.ts';

/**
 * A call as an object of JSON: its name and its arguments are two of its keys, in any order, or
 * those of an object in it.
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
/** Letters of a key, and of a value that is neither the name nor the arguments. */
const SMALL_MAX = 256;
/** Letters before the arguments, or of arguments before the name: each piece reads them again. */
const HELD_MAX = 16_384;

/** Up to the arguments. A call without arguments is one only if `mayLack`. */
export function objectHead(mayLack: boolean): Match {
  return (text, from, names) => {
    const opened = letterAt(text, from, '{');
    return typeof opened === 'number' ? keysFrom(text, opened, names, mayLack) : opened;
  };
}

function keysFrom(text: string, from: number, names: readonly string[], mayLack: boolean): Matched {
  let at = from;
  let name: string | null = null;
  let held: string | undefined;
  for (;;) {
    at = afterSpace(text, at);
    if (at - from > HELD_MAX) return 'none';
    if (at >= text.length) return 'partial';
    if (text[at] === '}') {
      if (name === null || (held === undefined && !mayLack)) return 'none';
      return { end: at, name, held: held ?? '{}' };
    }
    if (text[at] === ',') at += 1;
    const key = smallTextAt(text, at);
    if (typeof key === 'string') return key;
    const value = letterAt(text, key.end, ':');
    if (typeof value === 'string') return value;
    const isArguments = ARGUMENTS.has(key.text);
    if (isArguments && name !== null) return { end: value, name };
    at = afterSpace(text, value);
    if (at >= text.length) return 'partial';
    if (isArguments) {
      const end = valueEnd(text, at, HELD_MAX);
      if (typeof end === 'string') return end;
      held = text.slice(at, end);
      at = end;
    } else if (NAMES.has(key.text) && text[at] === '{') at += 1;
    else if (NAMES.has(key.text) && name === null) {
      const said = smallTextAt(text, at);
      if (typeof said === 'string') return said;
      if (!names.includes(said.text)) return 'none';
      name = said.text;
      at = said.end;
      if (held !== undefined) return { end: at, name, held };
    } else {
      const end = valueEnd(text, at, SMALL_MAX);
      if (typeof end === 'string') return end;
      at = end;
    }
  }
}

/** A key with its value that comes after the arguments, such as an id. */
export const laterKey: Match = (text, from) => {
  const comma = letterAt(text, from, ',');
  if (typeof comma === 'string') return comma;
  const key = smallTextAt(text, comma);
  if (typeof key === 'string') return key;
  const value = letterAt(text, key.end, ':');
  if (typeof value === 'string') return value;
  const end = valueEnd(text, value, SMALL_MAX);
  return typeof end === 'string' ? end : { end, name: null };
};

/** Up to the arguments of `{"weather": {…}}`. */
export const nameAsKey: Match = (text, from, names) => {
  const opened = letterAt(text, from, '{');
  if (typeof opened === 'string') return opened;
  const key = smallTextAt(text, opened);
  if (typeof key === 'string') return key;
  const value = letterAt(text, key.end, ':');
  if (typeof value === 'string') return value;
  return names.includes(key.text) ? { end: value, name: key.text } : 'none';
};

function letterAt(text: string, from: number, letter: string): number | 'none' | 'partial' {
  const at = afterSpace(text, from);
  if (at >= text.length) return 'partial';
  return text[at] === letter ? at + 1 : 'none';
}

/** A short text of JSON. */
function smallTextAt(
  text: string,
  from: number,
): { text: string; end: number } | 'none' | 'partial' {
  const begin = letterAt(text, from, '"');
  if (typeof begin === 'string') return begin;
  const end = text.indexOf('"', begin);
  if ((end < 0 ? text.length : end) - begin > SMALL_MAX) return 'none';
  return end < 0 ? 'partial' : { text: text.slice(begin, end), end: end + 1 };
}

function valueEnd(text: string, from: number, most: number): number | 'none' | 'partial' {
  const end = new JsonEnd().push(text, from);
  if ((end ?? text.length) - from > most) return 'none';
  return end ?? 'partial';
}
