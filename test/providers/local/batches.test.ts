import type { BatchItem } from 'node-llama-cpp';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Batches, type Member } from '../../../src/providers/local/engine/batches.ts';

const SIZE = 128;
const token = (run: Member, tokens = 1): BatchItem => ({
  tokens: Array.from({ length: tokens }, (_, at) => at) as never,
  logits: [],
  evaluationPriority: run.priority,
});

function open() {
  const batches = new Batches();
  const choose = batches.options.itemPrioritizationStrategy;
  if (typeof choose !== 'function') throw new Error('the strategy of the library is used');
  return {
    batches,
    exact: () => batches.enter({ exact: true, batched: false }),
    free: () => batches.enter({ exact: false, batched: false }),
    next: (...items: BatchItem[]) =>
      choose({ items, size: SIZE }).map(({ item, processAmount }) => [
        items.indexOf(item),
        processAmount,
      ]),
  };
}

test('the next tokens of runs that need not be exact are one batch, and they know it', () => {
  const { free, next } = open();
  const [one, two] = [free(), free()];
  assert.equal(next(token(one), token(two)), [
    [0, 1],
    [1, 1],
  ]);
  assert.equal([one.batched, two.batched], [true, true]);
});

test('a batch has its tokens in the order of the sequences, so that llama.cpp does not split it', () => {
  const { free, next } = open();
  const [one, two, three] = [free(), free(), free()];
  [one.place, two.place, three.place] = [2, 0, 1];
  assert.equal(next(token(one), token(two), token(three)), [
    [1, 1],
    [2, 1],
    [0, 1],
  ]);
});

test('a token alone stays exact, until another run shares its batch', () => {
  const { free, next } = open();
  const [one, two] = [free(), free()];
  assert.equal(next(token(one)), [[0, 1]]);
  assert.not.ok(one.batched);
  next(token(one), token(two));
  assert.ok(one.batched);
});

test('an exact run is always computed by itself, in its turn', () => {
  const { free, exact, next } = open();
  const [one, two, three] = [exact(), free(), free()];
  assert.equal(next(token(one), token(two), token(three)), [[0, 1]]);
  assert.equal(next(token(two), token(one), token(three)), [
    [0, 1],
    [2, 1],
  ]);
  assert.not.ok(one.batched);
});

test('a part of a prompt is a batch by itself', () => {
  const { free, next } = open();
  const [one, two] = [free(), free()];
  assert.equal(next(token(one, 40), token(two)), [[0, 40]]);
  assert.equal(next(token(two), token(one, 40)), [[0, 1]]);
  assert.equal(next(token(one, 400)), [[0, SIZE]]);
  assert.equal([one.batched, two.batched], [false, false]);
});

test('a batch waits for a run between two tokens, and goes on without it after a while', () => {
  const { free, next } = open();
  const [one, two] = [free(), free()];
  next(token(one), token(two));
  assert.equal(next(token(one)), [], 'it waits');
  assert.equal(next(token(one), token(two)).length, 2);
  let waited = 0;
  while (next(token(one)).length === 0) {
    waited += 1;
    assert.ok(waited < 1000, 'it waits for ever');
  }
  assert.ok(waited > 0);
  assert.equal(next(token(one)).length, 1, 'it does not wait for that run again');
});

test('a batch does not wait for a run that has left', () => {
  const { batches, free, next } = open();
  const [one, two] = [free(), free()];
  next(token(one), token(two));
  batches.leave(two);
  assert.equal(next(token(one)), [[0, 1]]);
});

test.run();
