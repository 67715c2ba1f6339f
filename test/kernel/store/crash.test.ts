import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { EventStore, StoredEvent } from '../../../src/kernel/store/port.ts';
import { startWriter } from './process.ts';
import { placed } from './samples.ts';

/** `npm run torture` kills the whole daemon many more times. */
const CYCLES = 10;

test(
  `a writer killed ${CYCLES} times during its commits loses no acknowledged event, and no commit is half there`,
  placed(async (place) => {
    let acked = 0;
    let killed = 0;
    for (let cycle = 1; cycle <= CYCLES; cycle += 1) {
      const writer = startWriter(place);
      assert.ok(
        Number((await writer.says('open')).slice(5)) >= acked,
        `cycle ${cycle} finds ${acked}`,
      );
      writer.command('on');
      const enough = acked + 1 + ((cycle * 37) % 400);
      while (writer.acked() < enough)
        await new Promise((resolve) => writer.child.stdout?.once('data', resolve));
      await writer.end('SIGKILL');
      acked = writer.acked();
      if (writer.child.signalCode === 'SIGKILL') killed += 1;
    }
    assert.is(killed, CYCLES, 'each was killed while it wrote');
    const store = place.store();
    const { last_seq } = await store.open();
    assert.ok(last_seq >= acked, `${last_seq} of ${acked}`);
    assert.equal(await store.verify(), { ok: true, events: last_seq, problems: [] });
    await checkWhole(store, last_seq);
    await store.close();
  }),
);

/** Each commit of the writer is whole, from its first event to the row of its run. */
async function checkWhole(store: EventStore, last_seq: number): Promise<void> {
  let seq = 0;
  let runs = 0;
  while (seq < last_seq) {
    const events: StoredEvent[] = await store.readStream(`run_${seq + 1}`, 1, 100);
    assert.is(events.length, 2 + ((seq * 7) % 40));
    assert.equal(
      events.map((one) => one.seq),
      Array.from(events, (_, index) => seq + index + 1),
    );
    seq += events.length;
    runs += 1;
    assert.is((await store.getRun(events[0]?.stream ?? ''))?.seq, seq);
  }
  assert.is(seq, last_seq);
  assert.equal(await store.countRuns(), { finished: 0, unfinished: runs });
}

test.run();
