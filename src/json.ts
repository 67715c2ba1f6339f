/** Real responses nest a few levels deep. The parser needs seconds for millions of levels. */
const DEPTH_MAX = 64;
/** Objects and lists of one response. Each needs far more memory than its text. */
const PARTS_MAX = 100_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const SQUARE = 0x5b;
const CURLY = 0x7b;
const SQUARE_END = 0x5d;
const CURLY_END = 0x7d;

/** Comparisons: each byte of a text is asked about, and a look into a set takes longer. */
function opens(code: number): boolean {
  return code === SQUARE || code === CURLY;
}

function closes(code: number): boolean {
  return code === SQUARE_END || code === CURLY_END;
}

/**
 * Parses a text of the other side. Undefined if there is none, it is not JSON, or it is too deep or
 * too large.
 */
export function parseForeignJson(text: string | null): unknown {
  if (text === null || isTooMuch(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether a JSON text has more levels or parts than any response. */
export function isTooMuch(text: string): boolean {
  let depth = 0;
  let parts = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) quoted = !quoted;
    else if (quoted) at += code === BACKSLASH ? 1 : 0;
    else if (opens(code)) {
      depth += 1;
      parts += 1;
      if (depth > DEPTH_MAX || parts > PARTS_MAX) return true;
    } else if (closes(code)) depth = Math.max(0, depth - 1);
  }
  return false;
}

/**
 * What a JSON text has too much of, if anything. A value costs far more memory and time than its
 * text. It reads each byte once.
 */
export function excessOf(
  json: Uint8Array,
  most: { levels: number; values: number },
): 'levels' | 'values' | null {
  let depth = 0;
  let values = 1;
  let quoted = false;
  for (let at = 0; at < json.length; at += 1) {
    const code = json[at] as number;
    if (code === QUOTE) quoted = !quoted;
    else if (quoted) at += code === BACKSLASH ? 1 : 0;
    else if (code === COMMA || opens(code)) {
      values += 1;
      if (values > most.values) return 'values';
      if (code === COMMA) continue;
      depth += 1;
      if (depth > most.levels) return 'levels';
    } else if (closes(code)) depth -= 1;
  }
  return null;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** The value if it is an object, else an empty one. */
export function asRecord(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {};
}

export interface JsonMeasure {
  /** Counts the next character or byte. True once there are too many levels or parts. */
  take(code: number): boolean;
  /** Ends an open string: no JSON string spans two lines. */
  endLine(): void;
}

/** Counts levels and parts of a JSON text before parsing. Brackets inside strings do not count. */
export function measureJson(): JsonMeasure {
  let depth = 0;
  let parts = 0;
  let quoted = false;
  let escaped = false;
  return {
    take(code) {
      if (escaped) escaped = false;
      else if (quoted && code === BACKSLASH) escaped = true;
      else if (code === QUOTE) quoted = !quoted;
      else if (!quoted && opens(code)) {
        depth += 1;
        parts += 1;
      } else if (!quoted && closes(code)) depth = Math.max(0, depth - 1);
      return depth > DEPTH_MAX || parts > PARTS_MAX;
    },
    endLine() {
      quoted = false;
      escaped = false;
    },
  };
}
