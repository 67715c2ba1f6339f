import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { EARNED_TURNS, SKIPPED_TURNS_MAX, TurnBudget } from '../../src/async/turn-budget.ts';
import { TURN_BYTES, WRITE_BYTES, Writes } from '../../src/transport/stream/unsent-bytes.ts';

/** A budget with the event loop of the test, and its writers in order. */
function open() {
  let next: (() => void) | null = null;
  const turns = new TurnBudget({ turn_bytes: TURN_BYTES, work_bytes: WRITE_BYTES }, (serve) => {
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

test('a write that waited before its bytes were known runs in that turn, and not in a later one', async () => {
  const { turns, ask, turn } = open();
  for (const name of upTo(0, SMALL)) ask(name, 1);
  const writes = new Writes(turns);
  const reserved = writes.reserve();
  assert.is.not(reserved, undefined, 'this turn has no bytes left');
  await turn();
  await reserved;
  assert.is(writes.take(TURN_BYTES), undefined);
  assert.is.not(turns.take(1), undefined, 'its bytes count in its turn');
  await turn();
  assert.is(writes.reserve(), undefined);
  await turn();
  for (const name of upTo(0, SMALL)) ask(name, 1);
  assert.is.not(writes.take(1), undefined, 'it waits again');
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

test('a burst of connections delays all writes, and a flood without end leaves them their share', async () => {
  const { turns, ask, turn } = open();
  turns.skipTurn();
  for (const name of upTo(0, 100)) ask(name, 1);
  const flood = async (count: number) => {
    const rounds: number[] = [];
    for (const _ of upTo(0, count)) {
      rounds.push((await turn()).length);
      turns.skipTurn();
    }
    return rounds;
  };
  assert.equal(
    await flood(SKIPPED_TURNS_MAX),
    upTo(0, SKIPPED_TURNS_MAX).map(() => 0),
  );
  const row = [SMALL, ...upTo(0, EARNED_TURNS).map(() => 0)];
  assert.equal(await flood(2 * row.length), [...row, ...row]);
});

test('turns that write earn the next burst', async () => {
  const { turns, ask, turn } = open();
  const burst = async () => {
    for (let skipped = 0; ; skipped += 1) {
      turns.skipTurn();
      if ((await turn()).length > 0) return skipped;
    }
  };
  const earned = 3;
  turns.skipTurn();
  for (const name of upTo(0, 1000)) ask(name, 1);
  assert.is(await burst(), SKIPPED_TURNS_MAX);
  for (const _ of upTo(0, earned)) await turn();
  assert.is(await burst(), (earned + 1) * EARNED_TURNS);
});

test('a flood of connections costs nothing that a later write needs', async () => {
  const { turns, ask, turn } = open();
  for (const _ of upTo(0, 2 * SKIPPED_TURNS_MAX)) {
    turns.skipTurn();
    await turn();
  }
  turns.skipTurn();
  ask(1, 1);
  assert.equal(await turn(), [], 'it is skipped, since nothing was before');
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
