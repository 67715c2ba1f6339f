import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { collectWhenIdle } from '../../src/daemon/boot.ts';
import { waitFor } from '../helpers/wait.ts';

/** Keeps this thread busy. */
function work(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

test('garbage is collected once after the start, and once after each time of work', async () => {
  const stop = new AbortController();
  let collected = 0;
  collectWhenIdle(40, stop.signal, () => {
    collected += 1;
  });
  await waitFor('the garbage of the start is collected', () => collected === 1);
  work(600);
  await waitFor('the garbage of the work is collected', () => collected === 2);
  stop.abort();
  assert.is(collected, 2);
});

test.run();
