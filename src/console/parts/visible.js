// @ts-check

/**
 * A foreign text that a person decides about. What cannot be seen, or reorders a line, is spelled
 * as JSON escapes it. Line breaks and tabs stay.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(
    /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu,
    (character) =>
      character
        .split('')
        .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
        .join(''),
  );
}

/**
 * JSON in a form for people. Values that are deep stay as they are written: their form is huge.
 * @param {string} json
 */
export function indented(json) {
  try {
    const text = JSON.stringify(JSON.parse(json), null, 2);
    return text.length > GROWTH * json.length + GROWTH ? json : text;
  } catch {
    return json;
  }
}

/** How many times as long the form for people may be. */
const GROWTH = 20;
