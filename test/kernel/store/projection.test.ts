import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { streamOf } from '../../../src/kernel/pages.ts';
import type { EventStore, Project, RunRow, StoredEvent } from '../../../src/kernel/store/port.ts';
import { SMALL_RESERVE } from '../../helpers/small-reserve.ts';
import { createStoreHere } from '../../helpers/store/sqlite-here.ts';
import { codeOf, event, type Place, placed, run } from './samples.ts';

const RUNS = 12;
const row = (index: number, seq: number): RunRow =>
  run(`run_${index}`, {
    seq,
    state: 'completed',
    finished: true,
    idempotency_key: `key_${index}`,
    record: { output: `the answer ${index} ${'x'.repeat(index * 40)}` },
  });

/** The row that the sample events give. The last event has the index. */
const project: Project = async (store, run_id) => {
  const events = await store.readStream(run_id, 1, 9);
  const last = events.at(-1);
  return last === undefined ? null : row(Number(last.data.index), last.seq);
};

function storeOf({ database, highWater }: Place, mended: string[] = []): EventStore {
  return createStoreHere({
    database,
    highWater,
    limits: SMALL_RESERVE,
    project,
    onMended: (run_id) => mended.push(run_id),
  });
}

/** Finished runs of three events each. */
async function fill(place: Place): Promise<void> {
  const store = storeOf(place);
  await store.open();
  for (let index = 0; index < RUNS; index += 1) {
    const first = 1 + index * 3;
    const text = { index, text: `piece ${index} ${'y'.repeat(300)}` };
    const events: StoredEvent[] = [
      event(first, `run_${index}`, 1, { type: 'run.accepted' }),
      event(first + 1, `run_${index}`, 2, { type: 'run.output_appended', data: text }),
      event(first + 2, `run_${index}`, 3, { type: 'run.completed', data: { index } }),
    ];
    await store.append({ events, runs: [row(index, first + 2)] });
  }
  await store.close();
}

function change({ database }: Place, sql: string): void {
  const db = new Database(database);
  db.exec(sql);
  db.close();
}

/** A whole round of the slow check. */
async function checkAll(store: EventStore): Promise<string[]> {
  for (let restart = true; ; restart = false) {
    const { done, report } = await store.verifyPart(1, restart);
    if (done) return report.problems;
  }
}

const CHANGES: [name: string, sql: string][] = [
  ['a changed key', `update runs set idempotency_key = 'other' where run_id = 'run_3'`],
  ['a key that is gone', `update runs set idempotency_key = null where run_id = 'run_3'`],
  ['a changed state', `update runs set state = 'failed' where run_id = 'run_3'`],
  [
    'a finished run that counts as unfinished',
    `update runs set finished = 0 where run_id = 'run_3'`,
  ],
  [
    'a changed answer',
    `update runs set data = replace(data, 'the answer', 'an answer') where run_id = 'run_3'`,
  ],
  ['a changed id', `update runs set run_id = 'run_x' where run_id = 'run_3'`],
  ['a row that was removed', `delete from runs where run_id = 'run_3'`],
  ['digests that were removed', `delete from run_digests where run_id = 'run_3'`],
];

for (const [name, sql] of CHANGES) {
  test(
    `${name} is named by the doctor's check, and made again from the events by the start or the read`,
    placed(async (place) => {
      await fill(place);
      change(place, sql);
      const plain = place.store();
      await plain.open();
      assert.match((await plain.verify()).problems.join(' '), 'The record of the run run_3');
      assert.match((await checkAll(plain)).join(' '), 'The record of the run run_3');
      assert.is(await codeOf(plain.getRun('run_3')), 'store_corrupt');
      assert.is(
        await codeOf(plain.readRecord('run_3')),
        'store_corrupt',
        'no damaged record is handed over as bytes',
      );
      await plain.close();
      const mended: string[] = [];
      const store = storeOf(place, mended);
      await store.open();
      assert.equal(await store.getRun('run_3'), row(3, 12));
      assert.equal(mended, ['run_3']);
      assert.is((await store.getRunByKey('key_3'))?.run_id, 'run_3');
      assert.is(await store.getRunByKey('other'), null);
      assert.equal(
        (await store.listRuns({ limit: 99, state: 'completed' })).map(({ run_id }) => run_id),
        Array.from({ length: RUNS }, (_, index) => `run_${RUNS - 1 - index}`),
      );
      assert.equal(await store.unfinishedRuns(), []);
      assert.equal((await store.verify()).problems, []);
      assert.equal(await checkAll(store), []);
      await store.close();
    }),
  );
}

test(
  'the start alone makes a damaged record of a new run again',
  placed(async (place) => {
    await fill(place);
    change(place, `update runs set state = 'failed' where run_id = 'run_3'`);
    const mended: string[] = [];
    const store = storeOf(place, mended);
    await store.open();
    assert.equal(mended, ['run_3']);
    await store.close();
  }),
);

for (const [name, sql] of [
  ['the words of a run that are gone', 'delete from run_words where rowid = 10'],
  ['a place that is not of its run', `insert into run_places values ('run_3', 10, 'run_1', null)`],
] as const)
  test(
    `${name}: found by the slow check, and made again from the events`,
    placed(async (place) => {
      await fill(place);
      change(place, sql);
      const plain = place.store();
      await plain.open();
      assert.match((await checkAll(plain)).join(' '), 'run_3 does not agree with the tables');
      await plain.close();
      const mended: string[] = [];
      const store = storeOf(place, mended);
      await store.open();
      await checkAll(store);
      assert.equal(mended, ['run_3']);
      assert.equal(await checkAll(store), []);
      const terms = ['the answer 3'];
      assert.equal(
        (await store.searchRuns({ terms, limit: 9 })).map(({ run_id }) => run_id),
        ['run_3'],
      );
      assert.equal(await store.listRuns({ conversation: 'run_1', limit: 9 }), [row(1, 6)]);
      await store.close();
    }),
  );

test(
  'the row of an unknown run is reported by name',
  placed(async (place) => {
    await fill(place);
    change(
      place,
      `insert into runs select 'run_extra', 7, 'extra', 1, ended_at, state, provider, seq, data from runs where run_id = 'run_2'`,
    );
    const store = storeOf(place);
    await store.open();
    for (const read of [store.getRun('run_extra'), store.getRunByKey('extra')])
      assert.is(await codeOf(read), 'store_corrupt');
    assert.match(
      (await store.verify()).problems.join(),
      'The record of the run run_extra does not belong to an event of it',
    );
    assert.match(
      (await checkAll(store)).join(),
      'The record of the run run_extra does not belong to an event of it',
    );
    await store.close();
  }),
);

test(
  'a run with changed events is refused by a read, and the slow check names the event, also after a restart',
  placed(async (place) => {
    await fill(place);
    change(
      place,
      `update events set data = replace(data, 'index', 'INDEX') where seq = 11; update runs set state = 'failed' where run_id = 'run_3'`,
    );
    assert.is(await codeOf(storeOf(place).open()), 'store_corrupt', 'it is among the last events');
    change(place, `update events set data = replace(data, 'INDEX', 'index') where seq = 11`);
    await checkOld(place);
  }),
);

/** The same damage, in events that the open does not check. */
async function checkOld(place: Place): Promise<void> {
  const store = storeOf(place);
  await store.open();
  await store.append({
    events: Array.from({ length: 1200 }, (_, index) => event(RUNS * 3 + 1 + index, 's', index + 1)),
    runs: [],
  });
  await store.close();
  change(
    place,
    `update events set data = replace(data, 'index', 'INDEX') where seq = 11; update runs set state = 'failed' where run_id = 'run_3'`,
  );
  const damaged = storeOf(place);
  await damaged.open();
  assert.is(await codeOf(damaged.readStream('run_3', 1, 9)), 'store_corrupt');
  assert.is(await codeOf(damaged.readAll(1, 99)), 'store_corrupt');
  assert.is(await codeOf(damaged.getRun('run_3')), 'store_corrupt', 'it cannot be made again');
  assert.equal(await damaged.getRun('run_4'), row(4, 15));
  const problems = await checkAll(damaged);
  assert.match(
    problems.join(' '),
    'The event 11 of the log (run.output_appended) does not agree with its hash.',
  );
  assert.match(problems.join(' '), 'The record of the run run_3');
  await damaged.close();
  const again = storeOf(place);
  await again.open();
  const { problems: kept, at, damaged: places } = await again.verified();
  assert.equal([kept, at, places], [problems, 1, 2]);
  await again.close();
}

for (const version of [1, 2, 3, 4]) {
  test(
    `a run that misses its event ${version} of 4 is not read as whole`,
    placed(async (place) => {
      const store = storeOf(place);
      await store.open();
      const types = ['run.accepted', 'run.started', 'run.output_appended', 'run.completed'];
      // The events of two runs alternate, so each hash covers an event of the other run.
      const events = types.flatMap((type, index) =>
        [0, 1].map((side) => event(2 * index + side + 1, `run_${side}`, index + 1, { type })),
      );
      await store.append({ events, runs: [row(0, 7), row(1, 8)] });
      // Damage in the last events stops the open; this is older.
      await store.append({
        events: Array.from({ length: 1200 }, (_, index) => event(9 + index, 's', index + 1)),
        runs: [],
      });
      await store.close();
      change(place, `delete from events where stream = 'run_0' and version = ${version}`);
      const damaged = storeOf(place);
      await damaged.open();
      assert.is(await codeOf(wholeStream(damaged, 'run_0')), 'store_corrupt');
      assert.is(await codeOf(wholeStream(damaged, 's')), null);
      await damaged.close();
    }),
  );
}

/** Reads as followers, replay and export do. */
async function wholeStream(store: EventStore, stream: string): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const one of streamOf(store, stream)) events.push(one);
  return events;
}

test(
  'no changed byte of a database gives a changed finished run, and the damage is named',
  placed(async (place) => {
    await fill(place);
    const whole = readFileSync(place.database);
    const mark = readFileSync(place.highWater);
    const found = { refused: 0, named: 0, whole: 0 };
    // Most pages of such a small file are empty: each table has one, and each index.
    for (let time = 0; time < 75; time += 1) {
      const bytes = Buffer.from(whole);
      const at = 100 + ((time * 2_654_435_761) % (whole.length - 100));
      bytes[at] = (bytes[at] ?? 0) ^ (1 << (time % 8));
      rmSync(`${place.database}-wal`, { force: true });
      writeFileSync(place.database, bytes);
      writeFileSync(place.highWater, mark);
      found[await meet(place, at)] += 1;
    }
    assert.ok(found.refused + found.named > 3, JSON.stringify(found));
  }),
);

async function meet(place: Place, at: number): Promise<'refused' | 'named' | 'whole'> {
  const store = place.store({ reserve_bytes: 65_536 });
  try {
    await store.open();
    let shown = 0;
    for (let index = 0; index < RUNS; index += 1) {
      const read = [
        await quietly(store.getRun(`run_${index}`)),
        await quietly(store.getRunByKey(`key_${index}`)),
      ];
      for (const one of read.filter((found) => found !== 'damaged')) {
        if (one !== null) assert.equal(one, row(index, index * 3 + 3), `byte ${at}`);
        shown += one === null ? 0 : 1;
      }
    }
    const { ok } = await store.verify();
    if (!ok) return 'named';
    assert.is(shown, 2 * RUNS, `byte ${at}: all are there where nothing is named`);
    return 'whole';
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    return 'refused';
  } finally {
    await store.close().catch(() => {});
  }
}

async function quietly(read: Promise<RunRow | null>): Promise<RunRow | null | 'damaged'> {
  return read.catch((error: unknown) => {
    if (error instanceof SvcError) return 'damaged';
    throw error;
  });
}

test.run();
