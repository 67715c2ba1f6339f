import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { EventStore } from '../../src/store/port.ts';
import { accepted, type Place, placed, run, series } from './samples.ts';

/** Changes one letter of the last place in the file that has the text: the entry of an index, or the row. */
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
  const store: EventStore = place.store({ reserve_bytes: 65_536 });
  await store.open();
  for (let restart = true; ; restart = false) {
    const { done, report } = await store.verifyPart(1, restart);
    if (!done) continue;
    await store.close();
    return report.problems;
  }
}

async function fill(place: Place): Promise<void> {
  const store = place.store({ reserve_bytes: 65_536 });
  await store.open();
  await store.append(series(1, 3, 'a-stream'));
  await store.append(accepted(4, [run('run_1', { seq: 4, idempotency_key: 'the-key' })]));
  await store.append(accepted(5, [run('run_2', { seq: 5, idempotency_key: 'another' })]));
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

test.run();
