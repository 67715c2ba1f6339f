import { getEventListeners } from 'node:events';
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isoTime, SystemClock } from '../../src/async/clock.ts';

const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;

/** A clock for tests: its wall clock can jump, and its monotonic clock stops during sleep. */
function world() {
  const state = { offset: 0 };
  const clock = new SystemClock(() => Date.now() + state.offset);
  const jumps: number[] = [];
  clock.onJump((ms) => jumps.push(ms));
  const ahead_ms = () => clock.now() - Date.now();
  return { state, clock, jumps, ahead_ms };
}

const near = (value: number | undefined, wanted: number) =>
  assert.ok(Math.abs(Number(value) - wanted) < 5000, `${value} is not near ${wanted}`);

test('the time is right again after a night of sleep, and what has deadlines hears how long it was', () => {
  const { state, jumps, ahead_ms } = world();
  near(ahead_ms(), 0);
  state.offset = 8 * HOUR_MS;
  near(ahead_ms(), 8 * HOUR_MS);
  assert.is(jumps.length, 1);
  near(jumps[0], 8 * HOUR_MS);
  near(ahead_ms(), 8 * HOUR_MS);
  assert.is(jumps.length, 1);
});

test('a small step of the wall clock is followed by none', () => {
  const { state, jumps, ahead_ms } = world();
  state.offset = 25_000;
  near(ahead_ms(), 0);
  assert.equal(jumps, []);
});

test('the time never goes back, whatever happens to the wall clock', () => {
  const { state, clock } = world();
  let last = clock.now();
  for (const offset of [-HOUR_MS, HOUR_MS, 0, -YEAR_MS, 2 * HOUR_MS, 1000]) {
    state.offset = offset;
    const now = clock.now();
    assert.ok(now >= last, `after ${offset}`);
    last = now;
  }
});

test('a process that has run for a day has not slept', () => {
  const { state, jumps, ahead_ms } = world();
  const { now } = performance;
  performance.now = () => now.call(performance) + 24 * HOUR_MS;
  state.offset = 24 * HOUR_MS;
  try {
    near(ahead_ms(), 24 * HOUR_MS);
    assert.equal(jumps, []);
  } finally {
    performance.now = now;
  }
});

test('a timer that is cancelled or aborted calls nothing, and leaves no listener', async () => {
  const { clock } = world();
  const called: string[] = [];
  const { signal } = new AbortController();
  const aborted = new AbortController();
  const cancel = clock.after(1, () => called.push('cancelled'), signal);
  clock.after(1, () => called.push('aborted'), aborted.signal);
  aborted.abort();
  cancel();
  clock.after(1, () => called.push('after the abort'), aborted.signal);
  // Timers of one length fire in their order.
  await new Promise<void>((resolve) => {
    clock.after(1, resolve, signal);
  });
  assert.equal(called, []);
  assert.equal(
    [signal, aborted.signal].map((one) => getEventListeners(one, 'abort').length),
    [0, 0],
  );
});

test('a time is written as Date writes it, whatever was written before', () => {
  const near = fc.integer({ min: -2500, max: 2500 });
  const finite = fc.double({ min: 0, max: 2000, noNaN: true });
  const anywhere = fc.integer({ min: -(10 ** 14), max: 10 ** 14 });
  fc.assert(
    fc.property(fc.array(fc.oneof(near, finite, anywhere)), (times) => {
      for (const at of times) assert.is(isoTime(at), new Date(at).toISOString());
    }),
  );
  assert.throws(() => isoTime(Number.NaN), /Invalid time value/);
});

test.run();
