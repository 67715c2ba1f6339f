import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { GATHER_TOKENS, OutputBatcher } from '../../src/engine/output-batcher.ts';
import type { Output } from '../../src/engine/protocol/from-engine.ts';

function batcher(): { output: OutputBatcher; sent: Output[] } {
  const sent: Output[] = [];
  return { output: new OutputBatcher((piece) => sent.push(piece)), sent };
}

test('the first text is sent at once, with the token before it that has no text', () => {
  const { output, sent } = batcher();
  output.push([], 1, null);
  assert.equal(sent, []);
  output.push([{ text: 'a' }], 2, null);
  assert.equal(sent, [{ text: 'a', token_ids: [1, 2] }]);
});

test('no token is lost or sent twice, and a message has a bounded number of them', () => {
  const { output, sent } = batcher();
  const tokens = Array.from({ length: 3 * GATHER_TOKENS + 5 }, (_, index) => index);
  for (const token of tokens) output.push([{ text: `${token} ` }], token, null);
  output.flush();
  output.flush();
  assert.equal(
    sent.flatMap(({ token_ids }) => token_ids),
    tokens,
  );
  assert.is(sent.map(({ text }) => text).join(''), tokens.map((token) => `${token} `).join(''));
  assert.ok(sent.every(({ token_ids }) => token_ids.length <= GATHER_TOKENS));
});

test('gathered text is sent without another token', async () => {
  const { output, sent } = batcher();
  output.push([{ text: 'a' }], 1, null);
  output.push([{ text: 'b' }], 2, null);
  while (sent.length < 2) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(sent[1], { text: 'b', token_ids: [2] });
});

test.run();
