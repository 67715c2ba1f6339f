/** Texts with characters that cannot be seen, or look like others, for each place of texts. */
interface UnseenText {
  name: string;
  text: string;
  /** As a person reads it who decides about it: at the terminal and in the console. */
  spelled: string;
  /** As a name or an error, in one line. */
  line: string;
}

const row = (name: string, text: string, spelled: string, line: string): UnseenText => ({
  name,
  text,
  spelled,
  line,
});
/** A text that stays as it is. */
const kept = (name: string, text: string) => row(name, text, text, text);
/** Characters between two letters that are spelled, and each lost in a line. */
const lost = (name: string, ...points: number[]) =>
  row(
    name,
    points.map((point) => `a${String.fromCodePoint(point)}`).join(''),
    points.map((point) => `a${escapesOf(String.fromCodePoint(point))}`).join(''),
    points.map(() => 'a\ufffd').join(''),
  );
/** The same for spaces, which a line keeps as plain ones. */
const spaces = (name: string, ...points: number[]) => ({
  ...lost(name, ...points),
  line: points.map(() => 'a ').join(''),
});

function escapesOf(text: string): string {
  return text
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');
}

export const unseenTexts: readonly UnseenText[] = [
  kept('letters of many scripts', 'é ü 漢 שלום مرحبا हिन्दी Ω – … ’ ﷽'),
  row('lines and tabs', 'a\n\tb', 'a\n\tb', 'a  b'),
  lost('C0 and delete', 0x00, 0x07, 0x08, 0x0b, 0x0d, 0x1b, 0x7f),
  lost('C1', 0x80, 0x85, 0x9b, 0x9d),
  lost('line breaks of Unicode', 0x2028, 0x2029),
  lost('directions', 0x061c, 0x200e, 0x200f, 0x202a, 0x202d, 0x202e, 0x2066, 0x2068, 0x2069),
  lost('without width', 0x00ad, 0x200b, 0x200c, 0x200d, 0x2060, 0x2064, 0xfeff, 0x034f),
  lost('fillers', 0x115f, 0x1160, 0x3164, 0xffa0, 0x17b4, 0x17b5, 0x16fe4),
  lost('blanks', 0x2800, 0x1d159),
  lost('selectors', 0xfe00, 0xfe0e, 0xfe0f, 0xe0100, 0xe01ef, 0x180b, 0x180d, 0x180f),
  lost('tags', 0xe0001, 0xe0041, 0xe007f),
  lost('reserved as invisible', 0x2065, 0xfff0, 0xe0fff),
  lost('marks of annotations', 0xfff9, 0xfffb, 0x1d173),
  lost('no characters', 0xfdd0, 0xffff, 0x10ffff),
  lost('half of a pair', 0xd800, 0xdfff),
  spaces('spaces', 0x00a0, 0x1680, 0x2000, 0x2003, 0x2007, 0x200a, 0x202f, 0x205f, 0x3000),
  kept('emoji', '😀 ❤️ ❤️‍🔥 👨‍👩‍👧 👩🏽‍🚀 🏳️‍🌈 1️⃣ #️⃣ 🇩🇪 ©️'),
  row('a selector on a letter or a digit', 'x\ufe0f1\ufe0f', 'x\\ufe0f1\\ufe0f', 'x\ufffd1\ufffd'),
  row('a joiner at the end of an emoji', '😀\u200dx', '😀\\u200dx', '😀\ufffdx'),
  row('two selectors', '❤\ufe0f\ufe0f', '❤\ufe0f\\ufe0f', '❤\ufe0f\ufffd'),
];
