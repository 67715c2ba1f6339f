/**
 * Makes foreign text safe for a terminal. It cannot move the cursor, forge a line of ours, or
 * reorder a line.
 * Dangerous characters become U+FFFD.
 */

/** Cleans a text of several lines. Tabs, line breaks, and the joiners of scripts and emoji stay. */
export function toPlain(text: string): string {
  return isPrintable(text) ? text : text.replace(commandPattern(), SHOWN);
}

/**
 * Cleans a text of one line, such as a name or an error. No invisible characters stay, except in
 * emoji, and each space is a plain one.
 */
export function oneLine(text: string): string {
  return isPrintable(text)
    ? text
    : text.replace(/[\t\n]|\p{Zs}/gu, ' ').replace(unseenPattern(), SHOWN);
}

/**
 * Spells invisible and ambiguous characters as JSON escapes them. JSON keeps its
 * value. A person who decides about a text reads it in this form. `visible` of the console does
 * the same: one table tests both.
 */
export function spellUnseen(text: string): string {
  if (/^[\n -~]*$/.test(text)) return text;
  return text.replace(unseenPattern(), (character) => character.split('').map(escapeUnit).join(''));
}

const SHOWN = '\u{fffd}';

/** Most texts are printable ASCII. The classes of Unicode take time to build, so only on use. */
function isPrintable(text: string): boolean {
  return /^[ -~]*$/.test(text);
}

/** Control characters, and those that change the direction of text. */
const commandPattern = () => /(?![\t\n])[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu;

/**
 * Control characters, invisible characters, and all spaces but the plain one. Selectors and joiners
 * of emoji stay. Three blanks have no such property: of Braille, of music and of Khitan.
 */
const unseenPattern = () =>
  /(?![\t\n ]|(?<=\p{Extended_Pictographic}|[#*0-9](?=\ufe0f\u20e3))\ufe0f|(?<=\p{Extended_Pictographic}\ufe0f?|\p{Emoji_Modifier})\u200d(?=\p{Extended_Pictographic}))[\p{Cc}\p{Cf}\p{Cs}\p{Z}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\u2800\u{1d159}\u{16fe4}]/gu;

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
