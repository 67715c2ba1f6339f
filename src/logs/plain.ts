/**
 * Makes foreign text safe for a terminal. It cannot move the cursor, forge a line of ours, or
 * reorder a line.
 * Dangerous characters become U+FFFD.
 */

/** Cleans a text of several lines. Tabs, line breaks, and the joiners of scripts and emoji stay. */
export function plain(text: string): string {
  return isPrintable(text) ? text : text.replace(commands(), SHOWN);
}

/**
 * Cleans a text of one line, such as a name or an error. No invisible characters stay, except in
 * emoji.
 */
export function oneLine(text: string): string {
  return isPrintable(text) ? text : text.replace(/[\t\n]/g, ' ').replace(unseen(), SHOWN);
}

/** The same JSON with these characters escaped. */
export function escapeJson(json: string): string {
  if (/^[\n -~]*$/.test(json)) return json;
  return json.replace(/[\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu, (character) =>
    character.split('').map(escaped).join(''),
  );
}

const SHOWN = '\u{fffd}';

/** Most texts are printable ASCII. The classes of Unicode take time to build, so only on use. */
function isPrintable(text: string): boolean {
  return /^[ -~]*$/.test(text);
}

/** Control characters, and those that change the direction of text. */
const commands = () => /(?![\t\n])[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu;
const unseen = () =>
  /(?!(?<=\p{Extended_Pictographic}|\p{Emoji_Modifier}|\ufe0f)\u200d(?=\p{Extended_Pictographic}))[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
