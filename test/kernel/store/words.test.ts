import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import { readMark } from '../../../src/kernel/store/files/high-water.ts';
import { verifyLog } from '../../../src/kernel/store/inspect/verify.ts';
import type { EventStore } from '../../../src/kernel/store/port.ts';
import { toRows } from '../../../src/kernel/store/row.ts';
import { EventLog } from '../../../src/kernel/store/sqlite/event-log.ts';
import { addWords, Words } from '../../../src/kernel/store/words.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { waitFor } from '../../helpers/wait.ts';
import { accepted, event, foundIn, type Place, placed, run } from './samples.ts';

/** The full-text index beside the log. */

const SECRET = 'xyzzyplugh';
const done = (index: number, prompt: string) =>
  run(`run_${index}`, {
    finished: true,
    state: 'completed',
    seq: index,
    record: { prompt, output: `answer ${index}` },
  });

async function found(store: EventStore, text: string): Promise<string[]> {
  const runs = await store.searchRuns({ terms: [text], limit: 9 });
  return runs.map(({ run_id }) => run_id);
}

const isBuilt = (store: EventStore) =>
  waitFor('the index is built', async () => (await store.unindexedRuns?.()) === 0);

function change({ database }: Place, ...sql: string[]): void {
  const db = new Database(database);
  // The tables of the index are protected otherwise.
  db.unsafeMode();
  for (const each of sql) db.exec(each);
  db.close();
}

test(
  'a run that is removed leaves none of its words in the files',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    const runs = Array.from({ length: 200 }, (_, index) =>
      done(index + 1, index % 2 === 0 ? `the ${SECRET} of ${index}` : `nothing of ${index}`),
    );
    const events = accepted(1, runs).events.map((each, index) => ({
      ...each,
      data: { prompt: String(runs[index]?.record?.prompt) },
    }));
    for (const [index, one] of runs.entries())
      await store.append({ events: events.slice(index, index + 1), runs: [one] });
    await store.append({ events: [event(201, 'other', 1)], runs: [] });
    assert.is((await store.searchRuns({ terms: [SECRET], limit: 500 })).length, 100);
    for (const { run_id } of runs.filter((_, index) => index % 2 === 0))
      assert.is((await store.removeRun(run_id)).runs, 1);
    assert.equal(await found(store, SECRET), []);
    assert.is((await found(store, 'nothing')).length, 9);
    for (const file of [place.database, `${place.database}-wal`])
      assert.not.ok(readFileSync(file).includes(SECRET), file);
    assert.ok((await store.verify()).ok);
    await store.close();
  }),
);

test(
  'the index follows the log behind its commits, and a kill costs no run',
  placed(async ({ database, highWater }) => {
    const log = new EventLog({ database, highWater, limits: defaultLimits });
    const runs = Array.from({ length: 130 }, (_, index) => done(index + 1, `own${index + 1}`));
    log.append(toRows(accepted(1, runs)));
    const copy = `${database}.copy`;
    // Another process copies: if this one closed the file, the lock would be lost.
    for (const part of ['', '-wal']) execFileSync('cp', [database + part, copy + part]);
    const db = new Database(copy);
    const killed = new Words(db);
    const find = (words: Words, text: string) => words.find({ terms: [text], limit: 9 }).length;
    assert.equal([find(killed, 'own7'), killed.unindexed()], [0, 130]);
    const problems = async () =>
      (await verifyLog(db, readMark(highWater), async () => {})).problems;
    assert.equal(await problems(), []);
    const write = (work: () => void) => db.transaction(work)();
    assert.ok(killed.follow(130, write), 'a step has a bound');
    const next = new Words(db);
    assert.equal([find(next, 'own7'), find(next, 'own130'), next.unindexed()], [1, 0, 30]);
    assert.not(next.follow(130, write));
    assert.equal([find(next, 'own130'), next.unindexed()], [1, 0]);
    assert.equal(await problems(), []);
    db.close();
    assert.is(log.searchRuns({ terms: ['own7'], limit: 9 }).length, 1, 'a search takes the steps');
    log.append(toRows(accepted(131, [done(131, 'own131')])));
    log.close();
    const closed = new Database(database, { readonly: true });
    assert.is(find(new Words(closed), 'own131'), 1, 'the close takes them, too');
    closed.close();
  }),
);

test(
  'of an index that is far behind a search takes one step, and counts a part of the rest',
  placed(async (place) => {
    const { database, highWater } = place;
    const log = new EventLog({ database, highWater, limits: defaultLimits });
    const runs = Array.from({ length: 9000 }, (_, index) => done(index + 1, `own${index + 1}`));
    log.append(toRows(accepted(1, runs)));
    const find = (word: string) => log.searchRuns({ terms: [word], limit: 9 }).length;
    assert.equal([find('own100'), find('own201')], [1, 0], 'two steps of 100 runs');
    assert.is(log.unindexedRuns(), 8700, 'by the next 2,000 events, which are all ends of runs');
    log.close();
    change(place, 'drop trigger run_words_removed', 'drop table run_words');
    const db = new Database(database);
    addWords(db);
    assert.is(new Words(db).unindexed(), 9000, 'an old log, by its newest 2,000 runs');
    db.close();
  }),
);

test(
  'runs that finish in one commit are one part of the index, in any order',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    const runs = [1, 2, 3, 4, 5, 6].map((index) => done(index, `common own${index}`));
    await store.append({ events: accepted(1, runs).events, runs: runs.toReversed() });
    assert.equal(await found(store, 'common'), runs.map(({ run_id }) => run_id).toReversed());
    assert.equal(await found(store, 'own3'), ['run_3']);
    await store.close();
    const db = new Database(place.database, { readonly: true });
    const parts = db.prepare('select count(distinct segid) from run_words_idx').pluck().get();
    db.close();
    assert.is(parts, 1);
  }),
);

test(
  'a text of one repeated word is found, with words around the first match',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    const output = `${'b '.repeat(100)}needle ${'c '.repeat(200)}`;
    const record = { prompt: 'a '.repeat(32_768), output };
    const fields = { finished: true, state: 'completed', seq: 1, record };
    await store.append(accepted(1, [run('run_1', fields)]));
    const terms = Array.from({ length: 16 }, (_, index) => 'a '.repeat(index + 1).trim());
    const [repeated] = await foundIn(store, { terms, limit: 9 });
    assert.is(repeated?.run_id, 'run_1');
    assert.ok((repeated?.snippet.length ?? 0) <= 210);
    const [found] = await foundIn(store, { terms: ['needle'], limit: 9 });
    const { snippet = '', matches = [] } = found ?? {};
    assert.match(snippet, /^…b .*b needle c .*…$/);
    assert.equal(
      matches.map(([from, to]) => snippet.slice(from, to)),
      ['needle'],
    );
    await store.close();
  }),
);

test(
  'a beginning leads to a bounded number of words, however many there are',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    const words = Array.from({ length: 5000 }, (_, index) => `aaa${index}`).join(' ');
    const texts = [words, `déploy deployed ${'depl '.repeat(10_000)}`, 'other words'];
    await store.append(
      accepted(
        1,
        texts.map((text, index) => done(index + 1, text)),
      ),
    );
    for (const terms of [['aaa*'], ['a*', 'other'], ['aaa1*', 'aaa2*']])
      await store.searchRuns({ terms, limit: 9 }).then(
        () => assert.unreachable(),
        (error: SvcError) => {
          assert.equal([error.code, error.param], ['invalid_request', 'words']);
        },
      );
    assert.equal(await found(store, 'aaa123*'), ['run_1'], '11 words');
    const [repeated] = await foundIn(store, { terms: ['depl*', 'DÉPLOY*'], limit: 9 });
    const { snippet = '', matches = [] } = repeated ?? {};
    assert.equal(
      matches.slice(0, 3).map(([from, to]) => snippet.slice(from, to)),
      ['déploy', 'deployed', 'depl'],
    );
    await store.close();
  }),
);

test(
  'a log without the index gets it at its next open',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    await store.append(accepted(1, [done(1, 'one'), done(2, 'two')]));
    await store.close();
    change(place, 'drop trigger run_words_removed', 'drop table run_words');
    const again = place.store();
    await again.open();
    await isBuilt(again);
    assert.equal(await found(again, 'one'), ['run_1']);
    await again.append(accepted(3, [done(3, 'one more')]));
    assert.equal(await found(again, 'one'), ['run_3', 'run_1']);
    await again.close();
  }),
);

test(
  'the index of an old log is built in steps, newest first, and a kill costs no step',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    const runs = Array.from({ length: 250 }, (_, index) => done(index + 1, `old own${index + 1}`));
    await store.append(accepted(1, runs));
    await store.append({ events: [event(251, 'other', 1)], runs: [] });
    await store.close();
    change(place, 'drop trigger run_words_removed', 'drop table run_words');
    const db = new Database(place.database);
    addWords(db);
    const first = new Words(db);
    const find = (text: string) => first.find({ terms: [text], limit: 300 }).length;
    assert.equal([find('old'), first.unindexed()], [0, 250]);
    assert.ok(first.build());
    assert.equal([find('old'), find('own250'), find('own1'), first.unindexed()], [100, 1, 0, 150]);
    const mark = readMark(place.highWater);
    assert.equal((await verifyLog(db, mark, async () => {})).problems, []);
    addWords(db);
    const second = new Words(db);
    assert.is(second.unindexed(), 150, 'another process goes on where the first one was killed');
    db.exec(`delete from runs where run_id in ('run_1', 'run_250')`);
    let steps = 0;
    while (second.build()) steps += 1;
    assert.equal([steps, find('old'), find('own2'), find('own250')], [2, 248, 1, 0]);
    assert.equal([second.unindexed(), second.build()], [0, false]);
    db.close();
  }),
);

test(
  'a step of building the index is bounded by its texts too',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    const runs = Array.from({ length: 20 }, (_, index) =>
      done(index + 1, `large ${index} ${'x'.repeat(65_536)}`),
    );
    await store.append(accepted(1, runs));
    await store.close();
    change(place, 'drop trigger run_words_removed', 'drop table run_words');
    const db = new Database(place.database);
    addWords(db);
    const words = new Words(db);
    assert.ok(words.build());
    assert.is(words.unindexed(), 5, 'fifteen of 65,536 characters fit in 1 MiB');
    db.close();
  }),
);

test(
  'a damaged index stops no run, and the next open builds it again',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    await store.append(accepted(1, [done(1, 'one')]));
    await store.close();
    change(place, `update run_words_data set block = x'00' where id = 10`);
    const damaged = place.store();
    await damaged.open();
    await damaged.append(accepted(2, [done(2, 'one')]));
    assert.is((await damaged.getRun('run_2'))?.finished, true);
    await damaged.close();
    const mended = place.store();
    await mended.open();
    await isBuilt(mended);
    assert.equal(await found(mended, 'one'), ['run_2', 'run_1']);
    await mended.close();
  }),
);

test.run();
