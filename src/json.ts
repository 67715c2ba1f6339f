/** No answer of a provider or a hub nests deeper than a few levels. The parser takes seconds for millions of them. */
const DEPTH_MAX = 64;
/** Objects and lists of one answer: each takes far more memory than text. A list of a few thousand files or models has fewer. */
const PARTS_MAX = 100_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENING = new Set([0x5b, 0x7b]);
const CLOSING = new Set([0x5d, 0x7d]);

/** What a text of another side holds; undefined when it is not JSON, or has more levels or parts than any answer does. */
export function parseForeignJson(text: string): unknown {
  if (isTooMuch(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** One pass over the text; brackets inside strings do not count. */
function isTooMuch(text: string): boolean {
  let depth = 0;
  let parts = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (quoted && code === BACKSLASH) at += 1;
    else if (code === QUOTE) quoted = !quoted;
    else if (!quoted && OPENING.has(code)) {
      depth += 1;
      parts += 1;
      if (depth > DEPTH_MAX || parts > PARTS_MAX) return true;
    } else if (!quoted && CLOSING.has(code)) depth -= 1;
  }
  return false;
}
