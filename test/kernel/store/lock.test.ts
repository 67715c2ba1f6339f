import { writeFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { HighWater, readMark } from '../../../src/kernel/store/files/high-water.ts';
import { startWriter } from './process.ts';
import { codeOf, placed, series } from './samples.ts';

test(
  'a second open in the same process is refused, and does not harm the first',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    assert.is(await codeOf(place.store().open()), 'daemon_already_running');
    assert.is(await codeOf(store.open()), 'daemon_already_running');
    await store.append(series(1, 1));
    const other = startWriter(place);
    assert.match(await other.says('refused'), 'daemon_already_running');
    await other.end('close');
    await store.close();
  }),
);

test(
  'a second open in another process is refused, naming the log, while the first lives',
  placed(async (place) => {
    const first = startWriter(place);
    await first.says('open 0');
    for (let time = 1; time <= 2; time += 1) {
      const store = place.store();
      const error = await store.open().then(
        () => null,
        (thrown: { code: string; message: string }) => thrown,
      );
      assert.is(error?.code, 'daemon_already_running');
      assert.match(error?.message ?? '', place.database);
      first.command('one');
    }
    await first.says('acked');
    await first.end('SIGKILL');
    const store = place.store();
    assert.ok((await store.open()).last_seq >= first.acked());
    await store.close();
  }),
);

test(
  'of many that open a new log at the same time, one gets it',
  placed(async (place) => {
    const writers = Array.from({ length: 4 }, () => startWriter(place));
    const said = await Promise.all(writers.map((writer) => writer.says('open', 'refused')));
    await Promise.all(writers.map((writer) => writer.end('close')));
    assert.is(said.filter((line) => line === 'open 0').length, 1, said.join('\n'));
    assert.is(
      said.filter((line) => line.startsWith('refused daemon_already_running')).length,
      3,
      said.join('\n'),
    );
  }),
);

test(
  'a close releases the lock, and so does an open that failed',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    await store.close();
    const mark = new HighWater(place.highWater, readMark(place.highWater)?.log_id ?? '');
    mark.write({ seq: 9, hash: 'f'.repeat(64) });
    mark.close();
    assert.is(await codeOf(store.open()), 'store_tail_lost');
    writeFileSync(place.highWater, 'accept');
    const writer = startWriter(place);
    await writer.says('open 0');
    await writer.end('close');
    await store.open();
    await store.close();
  }),
);

test.run();
