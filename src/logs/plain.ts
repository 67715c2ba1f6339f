/**
 * Texts of others, made fit for a terminal: they must not move its cursor, forge a line of ours, or change the order in which a line is
 * read. What would do so is shown as U+FFFD.
 */

/** A text of several lines: its tabs and line breaks stay, and so do the invisible marks that scripts and emoji need. */
export function plain(text: string): string {
  return text.replace(COMMANDS, SHOWN);
}

/** A text in a place of one line, such as a name, a message or an error. Nothing in it is invisible, but for what joins two emoji. */
export function oneLine(text: string): string {
  return text.replace(/[\t\n]/g, ' ').replace(UNSEEN, SHOWN);
}

/** JSON of the same value in which none of these characters is written as itself. */
export function escapeJson(json: string): string {
  return json.replace(/[\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu, (character) =>
    character.split('').map(escaped).join(''),
  );
}

const SHOWN = '\u{fffd}';
/** Control characters, and those that turn the order of what follows. */
const COMMANDS = /(?![\t\n])[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu;
const UNSEEN =
  /(?!(?<=\p{Extended_Pictographic}|\p{Emoji_Modifier}|\ufe0f)\u200d(?=\p{Extended_Pictographic}))[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
