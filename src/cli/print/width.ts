/** Text and the columns that a terminal needs for it. */

/** Columns of a text of one line: wide characters take two, marks and joiners none. */
export function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const { segment } of segmenter().segment(text))
    width += WIDE.test(segment) ? 2 : NONE.test(segment) ? 0 : 1;
  return width;
}

export function padded(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - widthOf(text)));
}

/** At most this many columns; a cut text ends in `…`. */
export function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let kept = '';
  let used = 1;
  for (const { segment } of segmenter().segment(text)) {
    used += widthOf(segment);
    if (used > width) break;
    kept += segment;
  }
  return `${kept.trimEnd()}…`;
}

const PLAIN = /^[\x20-\x7e]*$/;
const NONE = /^[\p{M}\p{Cf}]+$/u;
/** East Asian scripts, full-width forms, and what is drawn as an emoji. */
const WIDE = new RegExp(
  [
    String.raw`(?![\uff61-\uffdc])\p{Script=Han}`,
    String.raw`(?![\uff61-\uffdc])[\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]`,
    String.raw`[\u3000-\u303e\uff01-\uff60\uffe0-\uffe6]`,
    String.raw`\p{Emoji_Presentation}|\ufe0f`,
  ].join('|'),
  'u',
);

let made: Intl.Segmenter | undefined;

/** Made on use: most texts are plain. */
function segmenter(): Intl.Segmenter {
  made ??= new Intl.Segmenter();
  return made;
}
