import { test } from 'uvu';
import * as assert from 'uvu/assert';
// @ts-expect-error The console has no types: its files are JavaScript.
import { FIGURE_RUNS } from '../../src/console/bounds.js';
// @ts-expect-error
import { rateOf } from '../../src/console/parts/rate.js';

const TO = Date.parse('2026-01-01T12:00:00Z');

/** Runs that began so many seconds before the end. */
const begun = (...seconds: number[]) =>
  seconds.map((before) => ({ created_at: new Date(TO - before * 1000).toISOString() }));
const valuesOf = (runs: { created_at: string }[]) =>
  rateOf(runs, TO).points.map(({ value }: { value: number }) => value);

test('without a cut, each minute has its runs, and there are five minutes or more', () => {
  assert.equal(valuesOf(begun(5, 10, 100)), [0, 0, 0, 1, 2]);
  assert.equal(valuesOf(begun(5, 370)), [1, 0, 0, 0, 0, 0, 1]);
  assert.equal(rateOf(begun(5), TO).now, '1');
});

test('of more runs than are read, no minute is drawn that lacks some', () => {
  const runs = begun(...Array.from({ length: FIGURE_RUNS }, (_, index) => index * 2));
  const { from, isCut, now } = rateOf(runs, TO);
  // The oldest began 198 s ago: of the minute before 180 s, 10 are read and others may be missing.
  assert.equal([isCut, now, TO - from], [true, '31', 240_000]);
  assert.equal(valuesOf(runs), [30, 30, 31]);
});

test('where even one minute has more, its number says so', () => {
  const runs = begun(...Array.from({ length: FIGURE_RUNS }, (_, index) => index / 10));
  assert.equal([valuesOf(runs), rateOf(runs, TO).now], [[FIGURE_RUNS], `${FIGURE_RUNS} or more`]);
});

test('the latest runs are all of the time that is drawn: there is no cut', () => {
  const runs = begun(...Array.from({ length: FIGURE_RUNS }, (_, index) => index * 60));
  assert.equal([rateOf(runs, TO).isCut, valuesOf(runs).length], [false, 30]);
});

test.run();
