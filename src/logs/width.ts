/** Text and the columns that a terminal needs for it. The only table of wide characters. */

/** Columns of a text of one line: wide characters take two; marks, joiners and styles none. */
export function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  if (text.includes(STYLE)) return widthOf(util().stripVTControlCharacters(text));
  let width = 0;
  for (const { segment } of segmenter().segment(text))
    width += isWide(segment) || segment.includes(AS_EMOJI) ? 2 : isBare(segment) ? 0 : 1;
  return width;
}

/** Whether a character takes two columns by itself. The expression takes time to build. */
export function isWide(character: string): boolean {
  if (character < FIRST_WIDE) return false;
  wide ??= new RegExp(WIDE, 'u');
  return wide.test(character);
}

/** Whether a character is a mark or a joiner without a base character. */
function isBare(character: string): boolean {
  bare ??= new RegExp(BARE, 'u');
  return bare.test(character);
}

/** Columns of a terminal. Some do not say their width, or say 0. */
export function terminalColumns({ columns }: { columns?: number }): number {
  return columns || 80;
}

export function padTo(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - widthOf(text)));
}

/** At most this many columns; a cut text ends in `…`. */
export function cutTo(text: string, width: number): string {
  return widthOf(text) <= width ? text : `${takeFitting(text, width - 1).trimEnd()}…`;
}

/** The beginning of a text that fits so many columns. */
export function takeFitting(text: string, width: number): string {
  if (PLAIN.test(text)) return text.slice(0, Math.max(0, width));
  let kept = '';
  let used = 0;
  for (const { segment } of segmenter().segment(text)) {
    used += widthOf(segment);
    if (used > width) break;
    kept += segment;
  }
  return kept;
}

/** As `paint` begins one. */
const STYLE = '\u001b[';
// Not imported: see paths.ts.
const util = () => process.getBuiltinModule('node:util');
const PLAIN = /^[\x20-\x7e]*$/;
const BARE = String.raw`^[\p{M}\p{Cf}]+$`;
/** The selector makes the character before it an emoji. */
const AS_EMOJI = '\ufe0f';
const FIRST_WIDE = '\u1100';
/** East Asian scripts, full-width forms, and characters drawn as emoji. */
const WIDE = [
  String.raw`[\u1100-\u115f\u2e80-\u303e\u3041-\u4dbf\u4e00-\ua4cf\ua960-\ua97c\uac00-\ud7a3]`,
  String.raw`[\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{1b2ff}]`,
  String.raw`[\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}`,
].join('|');

/** Made on use: patterns of so many characters cost a quick command a millisecond. */
let wide: RegExp | undefined;
let bare: RegExp | undefined;
let made: Intl.Segmenter | undefined;

/** Made on use: most texts are plain. */
function segmenter(): Intl.Segmenter {
  made ??= new Intl.Segmenter();
  return made;
}
