import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseUpstreamError, sanitize } from '../../../src/providers/remote/upstream-error.ts';

const open = { key: null, texts: [] };

test('every form of an error is read', () => {
  const read = (value: unknown) => parseUpstreamError(value, open);
  assert.equal(read({ error: { message: 'a', code: 'x', type: 't' } }), {
    message: 'a',
    code: 'x',
    isAboutModel: false,
  });
  assert.equal(read({ error: { message: 'a', code: null, type: 't' } }), {
    message: 'a',
    code: 't',
    isAboutModel: false,
  });
  assert.equal(read({ error: 'no model' }), {
    message: 'no model',
    code: null,
    isAboutModel: true,
  });
  assert.equal(read({ object: 'error', message: 'a', type: 'NotFoundError', code: 404 }), {
    message: 'a',
    code: '404',
    isAboutModel: false,
  });
  assert.equal(read({ detail: 'a' }), { message: 'a', code: null, isAboutModel: false });
  for (const nothing of [
    null,
    undefined,
    5,
    'x',
    [],
    {},
    { error: null },
    { error: { message: 5 } },
    { detail: [{ msg: 'x' }] },
  ])
    assert.is(read(nothing).message, null);
});

test('a code is bounded too', () => {
  assert.is(parseUpstreamError({ error: { code: 'x'.repeat(1000) } }, open).code?.length, 80);
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
