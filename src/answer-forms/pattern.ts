/**
 * The forms that a text may have at one place: how an answer spells a mark, such as the beginning
 * of a tool call.
 *
 * Models do not write the white space of a mark exactly, so it may be missing or added around
 * punctuation, also before its first letter.
 */
export type Pattern = readonly Part[];

export type Part =
  | string
  /** White space counts. */
  | { readonly exact: string }
  | { readonly maybe: Pattern }
  /** The first pattern that matches. */
  | { readonly one: readonly Pattern[] }
  /** A word that the model chooses, such as an id. */
  | { readonly word: RegExp; readonly most: number }
  /** The name of a tool. */
  | typeof NAME
  /** Reads the rest by itself. */
  | { readonly rest: Match };

export const NAME = { name: true } as const;

/** `partial`: the text ends before this is decided. */
export type Matched = 'none' | 'partial' | Found;

export interface Found {
  /** The index after it. */
  readonly end: number;
  /** The tool that it names. */
  readonly name: string | null;
  /** Arguments that came before the name. */
  readonly earlyArguments?: string;
}

/** Looks for one thing in a text, from this index on. */
export type Match = (text: string, from: number, names: readonly string[]) => Matched;

/** Most white space in one place. */
const GAP_MAX = 64;

export const isSpace = (letter: string | undefined) => letter !== undefined && /\s/.test(letter);
const isWord = (letter: string | undefined) =>
  letter !== undefined && /[\p{L}\p{N}_]/u.test(letter);

/** The index after white space. */
export function afterSpace(text: string, from: number): number {
  let at = from;
  while (at - from < GAP_MAX && isSpace(text[at])) at += 1;
  return at;
}

/**
 * Whether the pattern is there. The first way that is not excluded counts, so the answer does not
 * depend on where a text is cut.
 */
export function matchAt(
  pattern: Pattern,
  text: string,
  from: number,
  names: readonly string[] = [],
): Matched {
  return matchRest(pattern, 0, { text, names }, { at: from, name: null, last: undefined });
}

interface Where {
  readonly at: number;
  readonly name: string | null;
  /** The letter of the pattern before this place. */
  readonly last: string | undefined;
}
interface Said {
  readonly text: string;
  readonly names: readonly string[];
}

function matchRest(pattern: Pattern, index: number, said: Said, where: Where): Matched {
  const part = pattern[index];
  if (part === undefined) return { end: where.at, name: where.name };
  const next = (to: Where) => matchRest(pattern, index + 1, said, to);
  if (typeof part === 'string') return thenMatch(spell(part, said, where, true), next);
  if ('exact' in part) return thenMatch(spell(part.exact, said, where, false), next);
  if ('rest' in part) return withName(part.rest(said.text, where.at, said.names), where);
  const rest = pattern.slice(index + 1);
  if ('maybe' in part)
    return matchFirst([[...part.maybe, ...rest], rest], (way) => matchRest(way, 0, said, where));
  if ('one' in part)
    return matchFirst(part.one, (way) => matchRest([...way, ...rest], 0, said, where));
  if ('word' in part) return thenMatch(wordAt(part, said, where), next);
  return matchFirst(said.names, (name) =>
    thenMatch(spell(name, said, where, true), (to) => next({ ...to, name })),
  );
}

function withName(matched: Matched, { name }: Where): Matched {
  return typeof matched === 'string' || matched.name !== null ? matched : { ...matched, name };
}

function matchFirst<T>(ways: readonly T[], match: (way: T) => Matched): Matched {
  for (const way of ways) {
    const matched = match(way);
    if (matched !== 'none') return matched;
  }
  return 'none';
}

function thenMatch(where: Where | 'none' | 'partial', next: (to: Where) => Matched): Matched {
  return typeof where === 'string' ? where : next(where);
}

function spell(
  spelling: string,
  { text }: Said,
  { at: from, name, last: before }: Where,
  isLoose: boolean,
): Where | 'none' | 'partial' {
  let at = from;
  let last = before;
  for (const letter of spelling.split('')) {
    if (isLoose && !isSpace(letter) && (!isWord(last) || !isWord(letter)))
      at = afterSpace(text, at);
    last = letter;
    if (isLoose && isSpace(letter)) continue;
    if (at >= text.length) return 'partial';
    if (text[at] !== letter) return 'none';
    at += 1;
  }
  return { at, name, last };
}

function wordAt(
  { word, most }: { word: RegExp; most: number },
  { text }: Said,
  { at: from, name }: Where,
): Where | 'none' | 'partial' {
  let at = from;
  while (at - from < most && at < text.length && word.test(text[at] as string)) at += 1;
  if (at === text.length && at - from < most) return 'partial';
  if (at === from) return 'none';
  return { at, name, last: text[at - 1] };
}
