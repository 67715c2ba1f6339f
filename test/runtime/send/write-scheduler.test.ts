import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  SKIPPED_TURNS_MAX,
  TURN_BYTES,
  WRITE_BYTES,
  WriteScheduler,
} from '../../../src/runtime/send/write-scheduler.ts';

/** A scheduler with the event loop of the test, and its writers in order. */
function open() {
  let next: (() => void) | null = null;
  const turns = new WriteScheduler((serve) => {
    assert.is(next, null, 'one call a turn is enough');
    next = serve;
  });
  const written: number[] = [];
  const ask = (name: number, bytes: number) => {
    const granted = turns.take(bytes);
    if (granted === undefined) written.push(name);
    else void granted.then(() => written.push(name));
  };
  /** The writers of the next turn. */
  const turn = async (): Promise<number[]> => {
    const serve = next;
    next = null;
    serve?.();
    await Promise.resolve();
    return written.splice(0);
  };
  return { turns, ask, turn, written, isIdle: () => next === null };
}

const upTo = (first: number, last: number) =>
  Array.from({ length: last - first }, (_, index) => first + index);
const SMALL = TURN_BYTES / WRITE_BYTES;

test('a thousand small writes run in several turns, in order', async () => {
  const { ask, turn, written } = open();
  for (const name of upTo(0, 1000)) ask(name, 1);
  assert.equal(written.splice(0), upTo(0, SMALL), 'the turn in which they come has its bytes too');
  const rounds: number[][] = [];
  for (let first = SMALL; first < 1000; first += SMALL) rounds.push(await turn());
  assert.ok(rounds.every(({ length }) => length <= SMALL));
  assert.equal(rounds.flat(), upTo(SMALL, 1000));
});

test('a write larger than a turn runs alone, and later ones wait', async () => {
  const { ask, turn } = open();
  for (const name of [1, 2, 3]) ask(name, 4 * TURN_BYTES);
  ask(4, 1);
  assert.equal([await turn(), await turn(), await turn()], [[1, 2], [3], [4]]);
});

test('a later write does not overtake a waiting one', async () => {
  const { ask, turn } = open();
  for (const name of [1, 2, 3]) ask(name, TURN_BYTES);
  assert.equal(await turn(), [1, 2]);
  ask(4, 1);
  assert.equal([await turn(), await turn()], [[3], [4]]);
});

test('turns that accept connections write nothing, except after the bound of skipped turns', async () => {
  const { turns, ask, turn } = open();
  const rounds: number[] = [];
  turns.skipTurn();
  for (const name of upTo(0, 100)) ask(name, 1);
  for (let count = 0; count < 2 * (SKIPPED_TURNS_MAX + 1); count += 1) {
    rounds.push((await turn()).length);
    turns.skipTurn();
  }
  const row = [...upTo(0, SKIPPED_TURNS_MAX).map(() => 0), SMALL];
  assert.equal(rounds, [...row, ...row]);
});

test('no turn is scheduled without writes', async () => {
  const { ask, turn, turns, isIdle } = open();
  assert.ok(isIdle());
  ask(1, 1);
  turns.skipTurn();
  await turn();
  assert.ok(isIdle());
});

test.run();
