import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseUpstreamError, quote, sanitize } from '../../../src/cloud/remote/upstream-error.ts';

const open = { key: null, texts: [] };

test('a sentence can follow the words of the provider', () => {
  for (const [said, shown] of [
    ['Overloaded', 'Overloaded.'],
    ['Overloaded.', 'Overloaded.'],
    ['Really?', 'Really?'],
    ['It is "full."', 'It is "full."'],
    ['Not now (try later)', 'Not now (try later).'],
    ['過負荷です。', '過負荷です。'],
    ['Cut…', 'Cut…'],
  ])
    assert.is(quote(parseUpstreamError({ detail: said }, open)), ` It says: ${shown}`);
});

test('every form of an error is read', () => {
  const read = (value: unknown) => parseUpstreamError(value, open);
  const rows: [value: unknown, message: string, codes: string[], param?: string][] = [
    [{ error: { message: 'a', code: 'x', type: 't', param: 'p.0' } }, 'a', ['x', 't'], 'p.0'],
    [{ error: { message: 'a', code: null, type: 't', param: 'the prompt' } }, 'a', ['t']],
    [{ error: 'no model' }, 'no model', []],
    [
      { object: 'error', message: 'a', type: 'NotFoundError', code: 404 },
      'a',
      ['404', 'NotFoundError'],
    ],
    [{ detail: 'a' }, 'a', []],
    [{ detail: [{ msg: 'x', loc: ['body', 'messages', 0] }] }, 'x', [], 'messages.0'],
    [
      [{ error: { code: 429, message: 'a', status: 'RESOURCE_EXHAUSTED' } }],
      'a',
      ['429', 'RESOURCE_EXHAUSTED'],
    ],
    [
      { type: 'response.failed', response: { error: { code: 'c', message: 'a' } } },
      'a',
      ['c', 'response.failed'],
    ],
    [{ validationException: { message: 'a' } }, 'a', []],
    [{ Message: 'a' }, 'a', []],
    [
      {
        error: {
          message: 'Provider returned error',
          code: 400,
          metadata: { raw: '{"error":{"message":"a"}}' },
        },
      },
      'a',
      ['400'],
    ],
    [{ error: { message: 'b', metadata: { raw: 'a' } } }, 'a', []],
  ];
  for (const [value, message, codes, param = null] of rows) {
    const found = read(value);
    assert.is(found.message, message);
    assert.equal(found.codes, codes);
    assert.is(found.param, param);
  }
  assert.is(read('some words').message, 'some words');
  assert.ok(read({ error: 'no model' }).isAboutModel);
  for (const nothing of [null, undefined, 5, [], {}, { error: null }, { error: { message: 5 } }])
    assert.is(read(nothing).message, null);
});

test('a code is bounded too', () => {
  const { codes } = parseUpstreamError({ error: { code: 'x'.repeat(1000) } }, open);
  assert.is(codes[0]?.length, 80);
});

test('a wait in the body of an error is read, and bounded', () => {
  const wait = (retryDelay: unknown) =>
    parseUpstreamError({ error: { details: [{}, { retryDelay }] } }, open).retryAfterMs;
  assert.equal(['6s', '0.5s', '999999999s', '6', 6, null, '-1s', '6m'].map(wait), [
    6000,
    500,
    86_400_000,
    ...Array(5).fill(null),
  ]);
});

test('a message is one bounded line without control or formatting characters', () => {
  // The library's own unit of all characters takes seconds to be built.
  const unit = fc.nat(0x10ffff).map((code) => String.fromCodePoint(code));
  fc.assert(
    fc.property(fc.string({ unit, maxLength: 2000 }), (text) => {
      const shown = sanitize(text, open) ?? 'x';
      assert.ok(shown.length <= 240);
      assert.ok(shown.isWellFormed());
      assert.not.match(shown, /[\p{Cc}\p{Cf}]/u);
    }),
  );
});

test('a message with the key, or most of it, is not shown', () => {
  const key = 'sk-proj-A1b2C3d4E5f6G7h8';
  for (const text of [
    `Incorrect API key: ${key}`,
    `Incorrect API key: ${key.slice(4, 18)}`,
    `Key ${key.slice(0, 14)}… is wrong`,
  ])
    assert.is(sanitize(text, { key, texts: [] }), null, text);
  assert.is(sanitize('Incorrect API key', { key, texts: [] }), 'Incorrect API key');
});

test('no part of a prompt appears in a message, at any position', () => {
  const word = fc
    .string({ unit: fc.constantFrom(...'abcdefghij 0123456789'), minLength: 60, maxLength: 120 })
    .filter((text) => text.trim().length > 50);
  fc.assert(
    fc.property(
      word,
      fc.nat(20),
      fc.string({ unit: 'grapheme-ascii', maxLength: 60 }),
      (prompt, from, before) => {
        const piece = prompt
          .trim()
          .replace(/\s+/g, ' ')
          .slice(from, from + 31);
        if (piece.trim().length < 31) return;
        assert.is(sanitize(`${before}${piece}`, { key: null, texts: [prompt] }), null);
      },
    ),
  );
});

test('a short prompt is not shown either, and does not hide text that only looks like it', () => {
  assert.is(sanitize('cannot answer: bomb', { key: null, texts: ['bomb'] }), null);
  assert.is(sanitize('this is something', { key: null, texts: ['hi', null] }), 'this is something');
});

test('a prompt with another layout is recognised', () => {
  const prompt = 'first line of the secret\n\n\tsecond line of the secret';
  assert.is(
    sanitize('input: first line of the secret second line of the secret', {
      key: null,
      texts: [prompt],
    }),
    null,
  );
});

test.run();
