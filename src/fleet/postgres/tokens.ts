import { isBeginning } from '../../kernel/store/search-terms.ts';

/**
 * Words for the search, as the SQLite index has them: letters and digits, in lower case, without
 * marks. The parser of the database is not used: what it takes for a word depends on its locale.
 */

/** Characters of a text that are indexed. More would delay commits. */
export const TEXT_MAX = 65_536;
/** Bounds of PostgreSQL: a position, and the positions of one word. */
const [POSITION_MAX, PLACES_MAX] = [16_383, 255];
/** Characters of a word: it has at most 2046 bytes. */
const WORD_MAX = 500;

export function wordsOf(text: string): string[] {
  return foldText(text)
    .split(/[^\p{L}\p{N}]+/u)
    .flatMap((word) => (word === '' ? [] : word.slice(0, WORD_MAX).toWellFormed()));
}

/** Lower case, without marks. Each character stays where it is. */
export function foldText(text: string): string {
  return text
    .normalize('NFC')
    .replace(/[^\0-\x7f]/gu, foldCharacter)
    .toLowerCase();
}

function foldCharacter(character: string): string {
  const base = character.normalize('NFD').replace(/\p{M}/gu, '');
  return base.length === character.length ? base : character;
}

/** The words of a text as a `tsvector`, with their positions. */
export function vectorOf(text: unknown): string {
  if (typeof text !== 'string') return '';
  const places = new Map<string, number[]>();
  for (const [index, word] of wordsOf(text.slice(0, TEXT_MAX)).entries()) {
    const known = places.get(word) ?? [];
    if (known.length === 0) places.set(word, known);
    if (index < POSITION_MAX && known.length < PLACES_MAX) known.push(index + 1);
  }
  return [...places].map(([word, at]) => `'${word}'${at.length > 0 ? `:${at}` : ''}`).join(' ');
}

/** The words of a term in a row, as a `tsquery`. Empty if it has no word. */
export function phraseOf(term: string): string {
  const phrase = wordsOf(term)
    .map((word) => `'${word}'`)
    .join(' <-> ');
  return isBeginning(term) ? `${phrase}:*` : phrase;
}
