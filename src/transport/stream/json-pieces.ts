/**
 * JSON of a plain value in pieces, so that no turn of the event loop makes a large one. Together
 * the pieces are what JSON.stringify makes.
 *
 * 1. A piece has about PIECE_LENGTH characters. A long text is escaped slice by slice.
 * 2. No slice ends inside a surrogate pair: each half alone would be escaped.
 */
export function* jsonPieces(value: unknown): Generator<string> {
  let piece = '';
  for (const part of partsOf(value)) {
    piece += part;
    if (piece.length < PIECE_LENGTH) continue;
    yield piece;
    piece = '';
  }
  if (piece !== '') yield piece;
}

/** Characters of all texts and numbers of a plain value, about its size. */
export function textLength(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value === 'number') return NUMBER_LENGTH;
  if (typeof value !== 'object' || value === null) return 0;
  let length = 0;
  for (const inner of Object.values(value)) length += textLength(inner);
  return length;
}

function* partsOf(value: unknown): Generator<string> {
  if (typeof value === 'string' && value.length > PIECE_LENGTH) yield* slicesOf(value);
  else if (Array.isArray(value)) yield* listOf(value);
  else if (typeof value === 'object' && value !== null) yield* objectOf(value);
  else yield JSON.stringify(value) ?? 'null';
}

function* listOf(values: readonly unknown[]): Generator<string> {
  let before = '[';
  for (const value of values) {
    yield before;
    yield* partsOf(value);
    before = ',';
  }
  yield before === '[' ? '[]' : ']';
}

function* objectOf(value: object): Generator<string> {
  let before = '{';
  for (const [name, inner] of Object.entries(value)) {
    if (inner === undefined) continue;
    yield `${before}${JSON.stringify(name)}:`;
    yield* partsOf(inner);
    before = ',';
  }
  yield before === '{' ? '{}' : '}';
}

function* slicesOf(text: string): Generator<string> {
  yield '"';
  for (let start = 0; start < text.length; ) {
    const wanted = start + PIECE_LENGTH;
    const end =
      wanted < text.length && isHighSurrogate(text.charCodeAt(wanted - 1)) ? wanted - 1 : wanted;
    yield JSON.stringify(text.slice(start, end)).slice(1, -1);
    start = end;
  }
  yield '"';
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

/** A fraction is longer, a count shorter. */
const NUMBER_LENGTH = 16;
export const PIECE_LENGTH = 64 * 1024;
