import { readdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import type { RunRow } from '../../../src/kernel/store/port.ts';
import { makeDurable } from '../../../src/kernel/store/sqlite/open.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { storeConformance } from './conformance.ts';
import { event, makePlace, placed, run, series } from './samples.ts';
import { textsIn } from './texts-in.ts';

storeConformance(test, () => {
  const place = makePlace();
  return {
    store: place.store(),
    again: () => place.store(),
    texts: textsIn(place),
    remove: place.remove,
  };
});

test('a database that cannot have a WAL is refused, with what it does instead', () => {
  const db = new Database(':memory:');
  assert.throws(
    () => makeDurable(db),
    ({ code, details }: SvcError) => {
      assert.is(code, 'store_failed');
      assert.equal(details, { journal_mode: 'memory', synchronous: 1, locking_mode: 'normal' });
      return true;
    },
  );
  db.close();
});

test(
  'the folder and all files are private, whatever the mode mask is',
  placed(async (place) => {
    const mask = process.umask(0);
    try {
      const store = place.store();
      await store.open();
      await store.append(series(1, 10));
      const folder = dirname(place.database);
      assert.is(statSync(folder).mode & 0o777, 0o700);
      assert.equal(readdirSync(folder).sort(), [
        'events.db',
        'events.db-wal',
        'events.high-water',
        'events.reserve',
      ]);
      for (const file of readdirSync(folder))
        assert.is(statSync(`${folder}/${file}`).mode & 0o777, 0o600, file);
      await store.close();
      assert.equal(
        readdirSync(folder).sort(),
        ['events.db', 'events.high-water', 'events.reserve'],
        'a clean close leaves no other file',
      );
    } finally {
      process.umask(mask);
    }
  }),
);

test(
  'a list of large runs comes in parts, and short texts cross the thread alone',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    const text = 'x'.repeat(Math.ceil(defaultLimits.store_page_bytes / 3));
    const ids = ['run_1', 'run_2', 'run_3', 'run_4', 'run_5'];
    const rows = ids.map((id, index) =>
      run(id, {
        finished: true,
        state: 'completed',
        seq: index + 1,
        record: { prompt: 'p', system: null, output: text },
      }),
    );
    await store.append({ events: ids.map((id, index) => event(index + 1, id, 1)), runs: rows });
    const listed: string[] = [];
    for (
      let page = await store.listRuns({ limit: 10 });
      page.length > 0;
      page = await store.listRuns({ limit: 10, before: listed.at(-1) as string })
    ) {
      assert.ok(page.length <= 2, `${page.length} runs at a time`);
      listed.push(...page.map(({ run_id }) => run_id));
    }
    assert.equal(listed, [...ids].reverse());
    const [short] = await store.listRuns({ limit: 1, short: true });
    assert.equal((short as RunRow | undefined)?.record, {
      prompt: 'p',
      system: null,
      output: 'x'.repeat(200),
      shortened: true,
    });
    await store.close();
  }),
);

test(
  'a page of events ends at its size, and has at least one',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    const sizes = [0.4, 0.4, 0.4, 2, 0.1];
    const events = sizes.map((size, index) =>
      event(index + 1, 's', index + 1, {
        data: { text: 'x'.repeat(size * defaultLimits.store_page_bytes) },
      }),
    );
    await store.append({ events, runs: [] });
    const read: number[][] = [];
    for (let from = 1; from <= sizes.length; from = (read.at(-1)?.at(-1) ?? 0) + 1)
      read.push((await store.readStream('s', from, 99)).map(({ version }) => version));
    assert.equal(read, [[1, 2], [3], [4], [5]]);
    await store.close();
  }),
);

test.run();
