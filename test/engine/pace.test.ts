import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Pace } from '../../src/engine/pace.ts';

/** The speed of tokens that are there at these milliseconds. */
function speedAt(times: readonly number[]): number | undefined {
  let at = 0;
  const pace = new Pace(() => at);
  for (at of times) pace.note();
  return pace.speed().tokens_per_second;
}

test('the speed is of the tokens after the first one', () => {
  assert.is(speedAt([1000, 1100, 1200, 1300]), 10);
  assert.is(speedAt([1000, 1005]), 200);
});

test('tokens that come at one moment have no speed, and do not raise that of the others', () => {
  const together = Array.from({ length: 53 }, (_, index) => 1000 + index / 100);
  assert.is(speedAt(together), undefined, '53 tokens in half a millisecond');
  // The last token of the moment came at 1000.52; 10 came in the next 100 ms.
  const later = Array.from({ length: 10 }, (_, index) => 1000.52 + 10 * (index + 1));
  assert.is(Math.round((speedAt([...together, ...later]) ?? 0) * 100) / 100, 100);
});

test('too short a time, and one token or none, have no speed', () => {
  assert.is(speedAt([1000, 1004]), undefined);
  assert.is(speedAt([1000]), undefined);
  assert.is(speedAt([]), undefined);
});

test.run();
