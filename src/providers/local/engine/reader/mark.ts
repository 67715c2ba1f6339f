/**
 * A text that has a meaning in an answer, such as the beginning of a tool call. Models do not write
 * its white space exactly, so it may be missing or added around punctuation.
 */
export interface Mark {
  /** The text without white space. */
  readonly letters: string;
  /** Whether white space may come before the letter of this index. */
  readonly gaps: readonly boolean[];
}

/** Most white space in one place. */
const GAP_MAX = 64;

const isSpace = (letter: string | undefined) => letter !== undefined && /\s/.test(letter);
const isWord = (letter: string | undefined) =>
  letter !== undefined && /[\p{L}\p{N}_]/u.test(letter);

/** A mark in which white space does not count. */
export function looseMark(text: string): Mark {
  const letters = text.replace(/\s+/g, '');
  const gaps: boolean[] = [];
  let previous: string | undefined;
  for (const letter of text.split('')) {
    if (!isSpace(letter)) gaps.push(!isWord(previous) || !isWord(letter));
    previous = letter;
  }
  return { letters, gaps };
}

/** A mark that must be written exactly so. */
export function exactMark(text: string): Mark {
  return { letters: text, gaps: Array.from({ length: text.length }, () => false) };
}

/** The index after the mark, if it begins at `from`. `partial`: the text ends inside the mark. */
export function matchAt(
  { letters, gaps }: Mark,
  text: string,
  from: number,
): number | 'partial' | 'none' {
  let at = from;
  for (let index = 0; index < letters.length; index += 1) {
    const gapFrom = at;
    while (gaps[index] === true && isSpace(text[at]) && at - gapFrom < GAP_MAX) at += 1;
    if (at >= text.length) return 'partial';
    if (text[at] !== letters[index]) return 'none';
    at += 1;
  }
  return at;
}
