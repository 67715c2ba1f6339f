import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { jsonPieces, PIECE_LENGTH, textLength } from '../../../src/transport/stream/json-pieces.ts';

const made = (value: unknown) => [...jsonPieces(value)];

test('the joined pieces are the JSON of the value', () => {
  const long = 'a "quote", a\nline and a \u0000\n'.repeat(20_000);
  for (const value of [
    null,
    1,
    'text',
    '',
    [],
    {},
    { a: undefined, b: [1, 'x', { c: null }], d: {} },
    long,
    { output: long, list: [long, true] },
  ])
    assert.ok(made(value).join('') === JSON.stringify(value));
});

test('no piece cuts a surrogate pair, and a lone half is escaped', () => {
  for (let before = 0; before < 3; before += 1) {
    const text = 'x'.repeat(PIECE_LENGTH - before) + '😀'.repeat(PIECE_LENGTH);
    assert.ok(
      made(text).join('') === JSON.stringify(text),
      `${before} characters before the border`,
    );
    assert.ok(made({ text }).every((piece) => piece.isWellFormed()));
  }
  const halves = `${'x'.repeat(PIECE_LENGTH - 1)}\ud83d${'x'.repeat(PIECE_LENGTH)}\ude00`;
  assert.ok(made(halves).join('') === JSON.stringify(halves));
});

test('a large value has many pieces, and none is large', () => {
  const value = {
    output: 'x'.repeat(PIECE_LENGTH * 10),
    runs: Array.from({ length: 5000 }, () => ({ prompt: 'a short prompt', n: 1 })),
  };
  const pieces = made(value);
  assert.ok(pieces.length >= 11, String(pieces.length));
  for (const piece of pieces) assert.ok(piece.length < 2 * PIECE_LENGTH, String(piece.length));
  assert.is(textLength(value), PIECE_LENGTH * 10 + 5000 * ('a short prompt'.length + 16));
});

test.run();
