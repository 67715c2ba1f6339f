import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { EventStore } from '../../../src/kernel/store/port.ts';
import { accepted, type Place, placed, run, series } from './samples.ts';

/**
 * Changes one letter of the last place in the file that has the text: the entry of an index, or the
 * row.
 */
function flip({ database }: Place, text: string, isIt: (after: string) => boolean): void {
  const bytes = readFileSync(database);
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) {
    const end = at + text.length;
    if (!isIt(bytes.toString('latin1', end, end + 16))) continue;
    bytes[end - 1] = (bytes[end - 1] ?? 0) ^ 0x10;
    writeFileSync(database, bytes);
    return;
  }
  throw new Error(`${text} is not in the file`);
}

/** The findings of a whole round of the slow check. */
async function checked(place: Place): Promise<string[]> {
  const store: EventStore = place.store();
  await store.open();
  return check(store);
}

async function check(store: EventStore): Promise<string[]> {
  for (let restart = true; ; restart = false) {
    const { done, report } = await store.verifyPart(1, restart);
    if (!done) continue;
    await store.close();
    return report.problems;
  }
}

/** `before`: older events of another stream. */
async function fill(place: Place, before = 0): Promise<void> {
  const store = place.store();
  await store.open();
  if (before > 0) await store.append(series(1, before, 'older'));
  const seq = before + 1;
  const keyed = (at: number, run_id: string, idempotency_key: string) =>
    accepted(at, [run(run_id, { seq: at, idempotency_key })]);
  const fresh = series(1, 3, 'a-stream');
  const events = fresh.events.map((event) => ({ ...event, seq: event.seq + before }));
  await store.append({ ...fresh, events });
  await store.append(keyed(seq + 3, 'run_1', 'the-key'));
  await store.append(keyed(seq + 4, 'run_2', 'another'));
  await store.close();
}

test(
  'the slow check finds an event that an index hides from its stream',
  placed(async (place) => {
    await fill(place);
    assert.equal(await checked(place), []);
    // In the row the type follows, in the index the version and the row's number.
    flip(place, 'a-stream', (after) => !after.includes('test'));
    assert.match(
      (await checked(place)).join(),
      /The event \d of the log \(test\.happened\) is not found by its stream/,
    );
  }),
);

test(
  'the slow check finds a run that an index hides from its key',
  placed(async (place) => {
    await fill(place);
    // In the row the state follows, and in its text a quotation mark.
    flip(place, 'the-key', (after) => !after.startsWith('queued') && !after.startsWith('"'));
    assert.match(
      (await checked(place)).join(),
      /The run run_1 is not found by its idempotency key/,
    );
  }),
);

test(
  'the start after that check rebuilds the index, and finds the event and the run again',
  placed(async (place) => {
    await fill(place);
    flip(place, 'a-stream', (after) => !after.includes('test'));
    flip(place, 'the-key', (after) => !after.startsWith('queued') && !after.startsWith('"'));
    assert.match((await checked(place)).join(), 'is not found by its idempotency key');
    const store = place.store();
    await store.open();
    assert.is(place.reindexed, 1);
    assert.is((await store.readStream('a-stream', 1, 10)).length, 3);
    assert.is((await store.getRunByKey('the-key'))?.run_id, 'run_1');
    assert.equal(await check(store), []);
    const next = place.store();
    await next.open();
    assert.is(place.reindexed, 1, 'an intact index is not rebuilt');
    await next.close();
  }),
);

test(
  'no index is rebuilt from a damaged table',
  placed(async (place) => {
    // The start itself refuses damage among the newest events.
    await fill(place, 1100);
    flip(place, 'the-key', (after) => !after.startsWith('queued') && !after.startsWith('"'));
    flip(place, 'test.happened', () => true);
    const problems = (await checked(place)).join();
    assert.match(problems, 'does not agree with its hash');
    assert.match(problems, 'is not found by its idempotency key');
    const store = place.store();
    await store.open();
    assert.is(place.reindexed, 0);
    await store.close();
  }),
);

test.run();
