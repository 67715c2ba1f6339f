import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { TokenText } from '../../../src/providers/local/engine/token-text.ts';

const decode = (tokens: readonly Buffer[]) => Buffer.concat([...tokens]).toString('utf8');

function spoken(tokens: readonly Buffer[]): { parts: string[]; longest: number } {
  let longest = 0;
  const text = new TokenText<Buffer>((pending) => {
    longest = Math.max(longest, pending.length);
    return decode(pending);
  });
  return { parts: [...tokens.map((token) => text.push([token])), text.end()], longest };
}

test('a character that is split over tokens comes out whole, and nothing before it waits', () => {
  const tokens = [...Buffer.from('a😀é')].map((byte) => Buffer.from([byte]));
  assert.equal(spoken(tokens).parts, ['a', '', '', '', '😀', '', 'é', '']);
});

test('bytes that never become a character come out at the end', () => {
  assert.equal(spoken([Buffer.from([0x41]), Buffer.from([0xf0, 0x9f])]).parts, ['A', '', '\ufffd']);
});

test('a replacement character that was really said is not lost', () => {
  assert.is(spoken([Buffer.from('a\ufffd'), Buffer.from('b')]).parts.join(''), 'a\ufffdb');
});

test('whatever the bytes, the parts together are the text of all tokens', () => {
  const byte = fc.oneof(
    fc.integer({ min: 0, max: 255 }),
    fc.constantFrom(0xf0, 0x9f, 0x98, 0x80, 0xe2, 0x82, 0xac, 0xff),
  );
  const token = fc.array(byte, { minLength: 1, maxLength: 3 }).map((bytes) => Buffer.from(bytes));
  fc.assert(
    fc.property(fc.array(token, { maxLength: 120 }), (tokens) => {
      assert.is(spoken(tokens).parts.join(''), decode(tokens));
    }),
    { numRuns: 2000 },
  );
});

test('an endless row of broken bytes is not read again from its beginning', () => {
  const { parts, longest } = spoken(Array.from({ length: 2000 }, () => Buffer.from([0xff])));
  assert.is(parts.join(''), '\ufffd'.repeat(2000));
  assert.ok(longest < 40, `looked at ${longest} tokens at once`);
});

test.run();
