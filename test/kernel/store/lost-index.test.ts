import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { HOUR_MS } from '../../../src/kernel/store/usage-sums.ts';
import { accepted, event, makePlace, type Place, placed, run, used } from './samples.ts';

/**
 * Any page of any index, or of a table that follows from the events, is lost: the log finds all it
 * had, and takes more.
 */

const RUNS = 300;

/** An hour of today, so that no day is folded. */
const HOUR = Math.floor(Date.now() / HOUR_MS) - 10;

const RUN_ROWS = Array.from({ length: RUNS }, (_, index) =>
  run(`run_${String(index).padStart(40, '0')}`, {
    finished: index !== 100,
    state: index === 100 ? 'queued' : 'completed',
    seq: index + 1,
    cloud: index !== 100,
    idempotency_key: `key of ${index}`,
    conversation: `conversation ${String(index % 7).padStart(60, '0')}`,
    origin: `origin ${String(index % 5).padStart(60, '0')}`,
    record: { prompt: `needle ${index}`, output: 'text', cloud: true, attempts: 1 },
    ...(index === 100
      ? {}
      : { usage: used({ cost: 46_000, hour: HOUR + (index % 9), model: `m${index}` }) }),
  }),
);

async function fill(place: Place): Promise<void> {
  const store = place.store();
  await store.open();
  await store.append(accepted(1, RUN_ROWS));
  const boots = Array.from({ length: 100 }, (_, index) => ({
    ...event(RUNS + 1 + index, `daemon:boot_${index}`, 1),
    type: index % 2 === 0 ? 'daemon.boot_started' : 'provider.embedding_sent',
    at: (HOUR + (index % 5)) * HOUR_MS,
    data: { provider: 'far', model: `e${index}`, client: 'mine', estimated_tokens: index },
  }));
  await store.append({ events: boots, runs: [] });
  await store.searchRuns({ terms: ['needle'], limit: 1 });
  await store.close();
}

interface Tree {
  name: string;
  pages: number[];
}

/** All indexes, and the tables that follow from the events, with their pages. */
function treesOf({ database }: Place): { trees: Tree[]; size: number } {
  const db = new Database(database, { readonly: true });
  const names = db.prepare<[], string>(
    `select name from sqlite_schema where type = 'index' or type = 'table' and rootpage > 0
      and name not in ('events', 'gaps', 'meta')`,
  );
  const pages = db
    .prepare<[string], number>('select pageno from dbstat where name = ? order by path')
    .pluck();
  const trees = names
    .pluck()
    .all()
    .map((name) => ({ name, pages: pages.all(name) }));
  const size = Number(db.pragma('page_size', { simple: true }));
  db.close();
  return { trees, size };
}

/** What a daemon finds in the log, by each index, and whether it can write. */
async function surveyOf(place: Place): Promise<object> {
  const store = place.store();
  await store.open();
  const id = (index: number) => `run_${String(index).padStart(40, '0')}`;
  const ids = (rows: { run_id: string }[]) => rows.map(({ run_id }) => run_id);
  const all = await store.listRuns({ limit: 1000 });
  const some = [0, 7, 150, RUNS - 1];
  const found = {
    all: ids(all),
    damaged: all.filter((row) => 'damage' in row),
    unfinished: await store.unfinishedRuns(),
    counts: await store.countRuns(),
    usage: await store.usage({ from_hour: 0, key: 'client' }),
    hours: await Promise.all(
      Array.from({ length: 10 }, (_, at) =>
        store.usage({ from_hour: HOUR + at, before_hour: HOUR + at + 1, key: null }),
      ),
    ),
    byKey: await Promise.all(
      some.map(async (each) => (await store.getRunByKey(`key of ${each}`))?.run_id),
    ),
    streams: await Promise.all(
      some.map(async (each) => (await store.readStream(id(each), 1, 10)).length),
    ),
    conversation: ids(await store.listRuns({ limit: 1000, conversation: CONVERSATION(3) })),
    queued: ids(await store.listRuns({ limit: 1000, state: 'queued' })),
    cloud: ids(await store.listRuns({ limit: 1000, cloud: true })),
    asked: ids(await store.listRuns({ limit: 1000, asked_by: 'a' })),
    model: ids(await store.listRuns({ limit: 1000, model: 'm' })),
    last: await store.lastRun(ORIGIN(2)),
    started: await store.startedStreams(0, RUNS + 100, 1000),
    at: await store.runsAt(RUNS, 1000),
  };
  const seq = RUNS + 101;
  await store.append(accepted(seq, [run('run_new', { seq, idempotency_key: 'new' })]));
  assert.is((await store.getRunByKey('new'))?.run_id, 'run_new');
  const { ok, problems } = await store.verify();
  await store.close();
  return { ...found, ok, problems };
}

const CONVERSATION = (index: number) => `conversation ${String(index).padStart(60, '0')}`;
const ORIGIN = (index: number) => `origin ${String(index).padStart(60, '0')}`;

const whole = makePlace();
let expected: object = {};
test.before(async () => {
  await fill(whole);
  await placed(async (place) => {
    cpSync(whole.folder, place.folder, { recursive: true, force: true });
    expected = await surveyOf(place);
    assert.is(place.reindexed, 0);
  })();
});
test.after(() => whole.remove());

for (const [how, byte] of [
  ['zeroed', 0],
  ['overwritten', 0xff],
] as const)
  test(
    `each index and derived table of a log is made again when its first, middle or last page is ${how}`,
    placed(async (place) => {
      const { trees, size } = treesOf(whole);
      assert.ok(trees.length >= 19, `${trees.length} trees`);
      let rebuilt = 0;
      for (const { name, pages } of trees) {
        for (const page of new Set([pages[0], pages[pages.length >> 1], pages.at(-1)])) {
          if (page === undefined) continue;
          cpSync(whole.folder, place.folder, { recursive: true, force: true });
          const bytes = readFileSync(place.database);
          bytes.fill(byte, (page - 1) * size, page * size);
          writeFileSync(place.database, bytes);
          place.reindexed = 0;
          place.project = async (_, run_id) =>
            RUN_ROWS.find((row) => row.run_id === run_id) ?? null;
          assert.equal(await surveyOf(place), expected, `${name}, page ${page}`);
          rebuilt += place.reindexed;
          assert.ok(place.reindexed <= 1, name);
        }
      }
      assert.ok(rebuilt > trees.length, `${rebuilt} times`);
    }),
  );

test.run();
