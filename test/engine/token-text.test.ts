import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { TokenText } from '../../src/engine/reader/answer.ts';

const decode = (tokens: readonly Buffer[]) => Buffer.concat([...tokens]).toString('utf8');

function spoken(tokens: readonly Buffer[]): { parts: string[]; longest: number } {
  let longest = 0;
  const text = new TokenText<Buffer>((pending) => {
    longest = Math.max(longest, pending.length);
    return decode(pending);
  });
  return { parts: [...tokens.map((token) => text.push([token])), text.end()], longest };
}

test('a character split over tokens arrives whole, and the text before it does not wait', () => {
  const tokens = [...Buffer.from('a😀é')].map((byte) => Buffer.from([byte]));
  assert.equal(spoken(tokens).parts, ['a', '', '', '', '😀', '', 'é', '']);
});

test('a character that the end cuts is left out', () => {
  assert.equal(spoken([Buffer.from([0x41]), Buffer.from([0xf0, 0x9f])]).parts, ['A', '', '']);
});

test('a replacement character of the model is kept', () => {
  assert.is(spoken([Buffer.from('a\ufffd'), Buffer.from('b')]).parts.join(''), 'a\ufffdb');
});

test('the parts together are the text of all tokens, for any bytes', () => {
  const byte = fc.oneof(
    fc.integer({ min: 0, max: 255 }),
    fc.constantFrom(0xf0, 0x9f, 0x98, 0x80, 0xe2, 0x82, 0xac, 0xff),
  );
  const token = fc.array(byte, { minLength: 1, maxLength: 3 }).map((bytes) => Buffer.from(bytes));
  fc.assert(
    fc.property(fc.array(token, { maxLength: 120 }), (tokens) => {
      assert.is(spoken(tokens).parts.join(''), decode(tokens).replace(/\ufffd$/, ''));
    }),
    { numRuns: 2000 },
  );
});

test('an endless row of invalid bytes is not read again from its beginning', () => {
  const { parts, longest } = spoken(Array.from({ length: 2000 }, () => Buffer.from([0xff])));
  assert.is(parts.join(''), '\ufffd'.repeat(1999));
  assert.ok(longest < 40, `looked at ${longest} tokens at once`);
});

test.run();
