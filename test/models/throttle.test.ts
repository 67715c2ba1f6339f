import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Throttle } from '../../src/models/throttle.ts';

const EVERY_MS = 1000;

/** A throttle whose clock and whose reports the test moves. Its timer never fires. */
function moved() {
  const clock = { ms: 0 };
  const reports: { bytes: number; end(): void }[] = [];
  const report = (bytes: number) =>
    new Promise<void>((end) => {
      reports.push({ bytes, end });
    });
  const throttle = new Throttle(EVERY_MS, 0, report, () => clock.ms);
  return { clock, reports, throttle, reported: () => reports.map(({ bytes }) => bytes) };
}

test('a report begins when one is due, and no other one before', async () => {
  const { clock, reports, throttle, reported } = moved();
  await throttle.update(5);
  clock.ms = EVERY_MS;
  const first = throttle.update(7);
  clock.ms = EVERY_MS + 10;
  reports[0]?.end();
  await first;
  clock.ms = 2 * EVERY_MS - 1;
  await throttle.update(9);
  assert.equal(reported(), [7]);
  throttle.stop();
});

test('a report that took long is followed at once, by the bytes that came meanwhile', async () => {
  const { clock, reports, throttle, reported } = moved();
  clock.ms = EVERY_MS;
  const first = throttle.update(7);
  // Other connections write on.
  clock.ms = 3 * EVERY_MS;
  await throttle.update(22);
  assert.equal(reported(), [7], 'one report at a time');
  reports[0]?.end();
  await first;
  const second = throttle.update(22);
  assert.equal(reported(), [7, 22]);
  reports[1]?.end();
  await second;
  throttle.stop();
});

test.run();
