import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Moment, oldAt } from '../../../src/kernel/store/prune/run-age.ts';

const DAY = 86_400_000;
const KEEP = 30 * DAY;

/**
 * When the run at a position is old, in days, with events at these days. Events in `removed` are
 * missing.
 */
function oldOn(
  days: readonly number[],
  position: number,
  even_since_day: number,
  removed: readonly number[] = [],
): number {
  const events = days
    .map((day, index): Moment => ({ seq: index + 1, at: day * DAY }))
    .filter(({ seq }) => !removed.includes(seq));
  const run = { seq: position, at: (days[position - 1] ?? 0) * DAY };
  const rules = { keep_ms: KEEP, even_since: even_since_day * DAY };
  return (
    oldAt(run, events.at(-1) ?? run, rules, (seq) => events.find((event) => event.seq >= seq)) / DAY
  );
}

test('without a clock jump, a run is old when its time is over', () => {
  assert.is(oldOn([0, 1, 2], 1, 0), 30, 'the same boot');
  assert.is(oldOn([0, 7, 14, 21, 28, 35, 42], 1, 42), 30, 'a boot a week');
  assert.is(oldOn([0, 1, 29, 31, 32], 1, 32), 30);
  assert.is(oldOn([0], 1, 20), 30, 'the present boot sees its time pass');
});

test('a run from a clock that was far behind is kept from the moment the clock was right', () => {
  assert.is(oldOn([0, 0, -400, -400, 0, 1], 3, 0), 30, 'the run from the wrong clock');
  assert.is(oldOn([0, 0, -400, -400, 0, 1], 4, 0), 30, 'its last event');
  assert.is(
    oldOn([0, 1, 2, 400, 401, 402], 2, 400),
    430,
    'the daemon was off, or the clock was ahead: nobody knows',
  );
  assert.is(
    oldOn([-400, -400], 1, 0),
    30,
    'the clock was set right in the present boot, and nothing was recorded since',
  );
  assert.is(
    oldOn([-20_000, -20_000, 0, 1, 2], 1, 2),
    30,
    'a machine without a clock of its own, set right in a boot before',
  );
});

test('it does not matter which other events are still in the log', () => {
  for (const removed of [[2], [4], [2, 4], [3, 4, 5]])
    assert.is(oldOn([0, 0, 1, 1, 1, 400, 401, 402, 403], 1, 403, removed), 430, String(removed));
  for (const removed of [[2], [5], [7, 8], [2, 3]])
    assert.is(oldOn([0, 6, 12, 18, 24, 29, 30, 31, 32, 33], 1, 33, removed), 30, String(removed));
});

test.run();
