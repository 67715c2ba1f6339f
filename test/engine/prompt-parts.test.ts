import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  batchesAfter,
  countKeepable,
  firstParts,
  tokensIn,
  withBatches,
  withSingles,
} from '../../src/engine/decode/prompt-parts.ts';

const BATCH = 4;

test('tokens are kept up to the end of a batch, or to any token that was computed by itself', () => {
  const parts = [6, 3, 5];
  assert.equal(
    Array.from({ length: 16 }, (_, most) => countKeepable(parts, most, BATCH)),
    [0, 0, 0, 0, 4, 4, 6, 7, 8, 9, 9, 9, 9, 13, 14, 14],
  );
});

test('what is kept is computed in the same batches when it is computed again', () => {
  const first = withSingles(withBatches([], 6, BATCH), 3);
  for (let most = 0; most <= tokensIn(first); most += 1) {
    const kept = countKeepable(first, most, BATCH);
    const second = withBatches(firstParts(first, kept), 10, BATCH);
    assert.is(tokensIn(second), kept + 10);
    const ends = (sizes: Iterable<number>, from: number) => {
      let at = from;
      return [...sizes].map((size) => (at += size));
    };
    const again = ends(batchesAfter(second, 0, BATCH), 0);
    assert.equal(
      again.filter((end) => end <= kept),
      ends(batchesAfter(first, 0, BATCH), 0).filter((end) => end <= kept),
      `of ${most} tokens`,
    );
    assert.equal(
      again.filter((end) => end > kept),
      ends(batchesAfter(second, kept, BATCH), kept),
    );
  }
});

test('a conversation of many turns is kept only so far', () => {
  const many = Array.from({ length: 200 }, () => 1);
  assert.is(countKeepable(many, 200, 1), 64);
});

test.run();
