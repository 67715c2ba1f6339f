import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { HighWater, readMark } from '../../../src/kernel/store/files/high-water.ts';
import { inspectStore } from '../../../src/kernel/store/inspect/inspect.ts';
import type { EventStore, PruneQuery, StoredEvent } from '../../../src/kernel/store/port.ts';
import { LogFile } from '../../../src/kernel/store/prune/log-file.ts';
import { inject, possible } from './inject.ts';
import { startWriter } from './process.ts';
import { accepted, codeOf, event, makePlace, type Place, placed, run, series } from './samples.ts';

const ALL = { before_at: Number.MAX_SAFE_INTEGER, max_bytes: null, keep_boot: 'boot_2', limit: 50 };

/**
 * Runs of four events each, two and two interleaved, with an event of the daemon after each pair.
 * The text is in each event and row.
 */
async function fill(store: EventStore, from: number, pairs: number, text: string): Promise<number> {
  let seq = from;
  for (let pair = 0; pair < pairs; pair += 1) {
    const names = [`run_${seq + 1}`, `run_${seq + 2}`];
    const events: StoredEvent[] = [];
    for (let version = 1; version <= 4; version += 1)
      for (const name of names)
        events.push(
          event(++seq, name, version, {
            type: version === 1 ? 'run.accepted' : 'run.happened',
            data: { text },
          }),
        );
    const runs = names.map((name, index) =>
      run(name, {
        finished: true,
        state: 'completed',
        record: { output: text },
        seq: seq - 1 + index,
      }),
    );
    seq += 1;
    events.push(
      event(seq, 'daemon:boot_2', (from === 0 ? 0 : 1000) + pair + 1, { boot_id: 'boot_2' }),
    );
    await store.append({ events, runs });
  }
  return seq;
}

async function pruneAll(
  store: EventStore,
  query: PruneQuery = ALL,
): Promise<{ runs: number; events: number; steps: number }> {
  const sum = { runs: 0, events: 0, steps: 0 };
  for (let more = true; more; sum.steps += 1) {
    const step = await store.prune(query);
    sum.runs += step.runs;
    sum.events += step.events;
    more = step.more;
  }
  return sum;
}

/** Files of a place that hold this text. */
function holding(place: Place, text: string): string[] {
  const folder = dirname(place.database);
  return readdirSync(folder).filter((name) => readFileSync(`${folder}/${name}`).includes(text));
}

test(
  'one removed run is in no file, and the log without it verifies, also for a copy',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    const first = await fill(store, 0, 3, 'my name is unknown');
    const text = 'my name is Rumpelstiltskin';
    const last = first + 3;
    const events = [1, 2].map((version) =>
      event(first + version, 'run_x', version, {
        type: version === 1 ? 'run.accepted' : 'run.happened',
        data: { text },
      }),
    );
    events.push(event(last, 'daemon:boot_2', 4, { boot_id: 'boot_2' }));
    const row = run('run_x', { finished: true, record: { output: text }, seq: last - 1 });
    await store.append({ events, runs: [row] });
    assert.ok(holding(place, text).length > 0);
    let step = await store.removeRun('run_x');
    assert.equal([step.runs, step.events], [1, 2]);
    while (step.more) step = await store.prune({ ...ALL, before_at: null });
    assert.equal(holding(place, text), []);
    assert.equal(await store.verify(), { ok: true, events: first + 1, problems: [] });
    await store.close();
    const again = place.store();
    assert.is((await again.open()).last_seq, last);
    assert.equal(await again.verify(), { ok: true, events: first + 1, problems: [] });
    await again.close();
  }),
);

test(
  'removed data is in no file, also while the log is open',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    const word = 'Rumpelstiltskin';
    await fill(store, 0, 200, `my name is ${word}`);
    assert.ok(holding(place, word).length > 0);
    assert.equal(await pruneAll(store), { runs: 400, events: 1600, steps: 9 });
    assert.equal(holding(place, word), []);
    assert.equal(await store.verify(), { ok: true, events: 200, problems: [] });
    await store.close();
    assert.equal(holding(place, word), []);
  }),
);

test(
  'after a large removal the file shrinks, and its free space is used again',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    await fill(store, 0, 80, 'x'.repeat(20_000));
    await store.prune({ ...ALL, before_at: 0 });
    const before = statSync(place.database).size;
    await pruneAll(store);
    const after = statSync(place.database).size;
    assert.ok(after < before / 1.5, `${before} bytes became ${after}`);
    await store.close();
  }),
);

test(
  'touching gaps merge, a missing event beside a gap is found, and the doctor knows gaps',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    const seq = await fill(store, 0, 300, 'x');
    await pruneAll(store, { ...ALL, before_at: event(seq / 2, 's', 1).at });
    await pruneAll(store);
    await store.close();
    const found = await inspectStore(place);
    assert.equal(found.state === 'read' && found.verify, { ok: true, events: 300, problems: [] });

    const db = new Database(place.database);
    assert.equal(
      db
        .prepare(
          'select count(*) as gaps, min(last_seq - first_seq) as least, max(last_seq - first_seq) as most from gaps',
        )
        .get(),
      { gaps: 300, least: 7, most: 7 },
    );
    db.exec('delete from events where seq = 900; pragma wal_checkpoint(truncate)');
    db.close();
    const again = await inspectStore(place);
    assert.equal(again.state === 'read' && again.verify.problems, [
      'After the event 899 of the log comes the event 909: some are missing.',
      'Version 101 of daemon:boot_2 does not follow the one before it.',
    ]);
  }),
);

test(
  'a gap with a changed hash is found',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    await fill(store, 0, 10, 'x');
    await pruneAll(store);
    await store.close();
    const db = new Database(place.database);
    db.prepare('update gaps set last_hash = ? where first_seq = 1').run(Buffer.alloc(32));
    db.close();
    assert.is(await codeOf(place.store().open()), 'store_corrupt');
  }),
);

test(
  'a high-water mark at a removed event is no lost end',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    await fill(store, 0, 10, 'x');
    const [, middle] = await store.readAll(3, 2);
    await pruneAll(store);
    await store.close();
    const mark = new HighWater(place.highWater, readMark(place.highWater)?.log_id ?? '');
    mark.write({ seq: middle?.seq ?? 0, hash: 'f'.repeat(64) });
    mark.write({ seq: middle?.seq ?? 0, hash: 'f'.repeat(64) });
    mark.close();
    const again = place.store();
    assert.is((await again.open()).last_seq, 90);
    await again.close();
  }),
);

(possible ? test : test.skip)(
  'a daemon that is killed while it removes history, at one write after the other, leaves a whole log',
  async () => {
    const points = new Set<number>();
    for (let when = 3; when <= 500; when += 83) {
      const place = makePlace();
      try {
        const store = place.store();
        await store.open();
        await fill(store, 0, 40, 'x'.repeat(500));
        await store.close();
        const writer = startWriter(place, {}, inject(`pwrite64:signal=SIGKILL:when=${when}`));
        await writer.says('open', 'refused');
        writer.command('prune');
        await writer.says('pruned', 'refused');
        await writer.end('close');
        const again = place.store();
        assert.is((await again.open()).last_seq, 360);
        const { finished } = await again.countRuns();
        const events = 40 + finished * 4;
        assert.equal(await again.verify(), { ok: true, events, problems: [] }, `write ${when}`);
        points.add(finished);
        await pruneAll(again);
        assert.equal(await again.verify(), { ok: true, events: 40, problems: [] });
        await again.close();
      } finally {
        place.remove();
      }
    }
    assert.ok(points.size >= 2, `it was killed with ${[...points].join(', ')} runs left`);
  },
);

/** Finished runs of one event each, after a stream of a boot with many events. */
async function noisy(store: EventStore, boot_id: string, count: number): Promise<void> {
  for (let from = 1; from <= count; from += 1000) {
    const { events } = series(from, 1000, `provider:p:${boot_id}`, { boot_id });
    const own = (seq: number) => ({ text: `${seq} ${'x'.repeat(300)}` });
    await store.append({ events: events.map((one) => ({ ...one, data: own(one.seq) })), runs: [] });
  }
  const runs = Array.from({ length: 40 }, (_, index) =>
    run(`run_${index}`, { finished: true, state: 'completed', seq: count + 1 + index }),
  );
  await store.append(accepted(count + 1, runs));
  await store.append({
    events: [event(count + 41, 'daemon:boot_2', 1, { boot_id: 'boot_2' })],
    runs: [],
  });
}

test(
  'no run is removed for bytes of the current boot',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    await noisy(store, 'boot_2', 5000);
    assert.equal(await pruneAll(store, { ...ALL, before_at: null, max_bytes: 1_048_576 }), {
      runs: 0,
      events: 0,
      steps: 1,
    });
    assert.is((await store.countRuns()).finished, 40);
    await store.close();
  }),
);

test(
  'events of old boots are removed before the first run',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    await noisy(store, 'boot_1', 5000);
    await store.close();
    await store.open();
    const removed = await pruneAll(store, { ...ALL, before_at: null, max_bytes: 1_048_576 });
    assert.is(removed.runs, 0);
    assert.ok(removed.events >= 2000, `${removed.events} events`);
    await store.close();
  }),
);

/** Finished runs of a boot, each with its words, and with two events of the daemon. */
async function busy(store: EventStore, boot_id: string, count: number): Promise<void> {
  const daemon = `daemon:${boot_id}` as const;
  let [seq, version] = [1, 1];
  await store.append({
    events: [event(1, daemon, 1, { type: 'daemon.boot_started', boot_id })],
    runs: [],
  });
  for (let from = 0; from < count; from += 100) {
    const events: StoredEvent[] = [];
    const rows = [];
    for (let index = from; index < from + 100; index += 1) {
      const name = `run_${String(index).padStart(6, '0')}`;
      const words = Array.from({ length: 40 }, (_, word) => `w${(index * 7 + word) % 5000}`);
      const output = words.join(' ');
      const own = (place: number, type: string) =>
        event(++seq, name, place, { type, boot_id, data: { output } });
      const said = (type: string) =>
        event(++seq, daemon, ++version, { type, boot_id, data: { run_id: name } });
      events.push(
        own(1, 'run.accepted'),
        said('daemon.run_admitted'),
        own(2, 'run.output_appended'),
      );
      events.push(own(3, 'run.completed'), said('daemon.run_settled'));
      const fields = { finished: true, state: 'completed', seq: seq - 1 };
      rows.push(run(name, { ...fields, record: { prompt: `ask ${index}`, output } }));
    }
    await store.append({ events, runs: rows });
  }
  await store.append({
    events: [
      event(seq + 1, 'daemon:boot_2', 1, { type: 'daemon.boot_started', boot_id: 'boot_2' }),
    ],
    runs: [],
  });
}

test(
  'a log far beyond a small bound keeps as many runs as fit, and what old daemons said goes first',
  placed(async (place) => {
    const max_bytes = 1_048_576;
    const store = place.store();
    await store.open();
    await busy(store, 'boot_1', 1000);
    await store.searchRuns({ terms: ['w1'], limit: 1 });
    await store.close();
    await store.open();
    const left: number[] = [];
    for (let round = 0; round < 4; round += 1) {
      await pruneAll(store, { ...ALL, before_at: null, max_bytes });
      left.push((await store.countRuns()).finished);
    }
    assert.ok((left[0] ?? 0) >= 100, `${left.join(', ')} runs are left`);
    assert.is(left.at(-1), left[1], 'a later round removes nothing');
    assert.ok((left[1] ?? 0) >= 0.8 * (left[0] ?? 0), `${left.join(', ')} runs are left`);
    assert.ok((await store.verify()).ok);
    const [newest] = await store.listRuns({ limit: 1 });
    assert.is(newest?.run_id, 'run_000999');
    await store.close();
    const db = new Database(place.database, { readonly: true });
    const said = db.prepare<[], number>(
      "select count(*) from events where stream = 'daemon:boot_1'",
    );
    assert.is(said.pluck().get(), 0);
    const used = db.prepare<[], number>(
      `select sum(pgsize) from dbstat where name in ('events', 'runs') or name like 'sqlite_autoindex_%'`,
    );
    assert.ok((used.pluck().get() ?? 0) >= max_bytes / 3, 'and it is not empty');
    db.close();
  }),
);

/** Bytes of the pages that are in use. */
function usedBytes(place: Place): number {
  const db = new Database(place.database, { readonly: true });
  const pages = (name: string) => Number(db.pragma(name, { simple: true }));
  const used = (pages('page_count') - pages('freelist_count')) * pages('page_size');
  db.close();
  return used;
}

test(
  'pruning for size begins with the run that frees most, and takes no other one if that is enough',
  placed(async (place) => {
    const MIB = 1_048_576;
    let store = place.store();
    await store.open();
    await busy(store, 'boot_1', 200);
    const large = (name: string, from: number, bytes: number) => ({
      events: [
        event(from, name, 1, { type: 'run.accepted', data: { text: 'x'.repeat(bytes) } }),
        event(from + 1, name, 2, { type: 'run.completed' }),
      ],
      runs: [run(name, { finished: true, state: 'completed', seq: from + 1 })],
    });
    await store.append(large('run_five', 1003, 5 * MIB));
    await store.append(large('run_nine', 1005, 9 * MIB));
    const said = { type: 'daemon.ready', boot_id: 'boot_2' };
    await store.append({ events: [event(1007, 'daemon:boot_2', 2, said)], runs: [] });
    await store.close();
    const before = usedBytes(place);
    store = place.store();
    await store.open();
    const query = { ...ALL, before_at: null, large_bytes: 4 * MIB, max_bytes: 6 * MIB };
    const removed = await pruneAll(store, query);
    assert.equal([removed.runs, removed.events], [1, 2]);
    assert.equal([await store.getRun('run_nine'), (await store.countRuns()).finished], [null, 201]);
    assert.equal((await store.lastEvent('daemon:boot_1'))?.version, 401, 'few bytes: it stays');
    const next = await pruneAll(store, { ...query, max_bytes: MIB / 2 });
    assert.is(await store.getRun('run_five'), null);
    assert.is(await store.lastEvent('daemon:boot_1'), null, 'and then before any small run');
    assert.equal([next.runs < 150, next.runs > 1], [true, true], `${next.runs} runs`);
    assert.ok((await store.verify()).ok);
    await store.close();
    const freed = before - usedBytes(place);
    assert.ok(freed > 14 * MIB && freed < 15.5 * MIB, `${freed} bytes are free`);
  }),
);

test('removed data leaves the write-ahead log after the last reader of it, and until then the reason is said', () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-wal-'));
  const path = join(folder, 'log');
  const [db, reader] = [new Database(path, { timeout: 0 }), new Database(path)];
  try {
    db.pragma('journal_mode = wal');
    const write = () => db.exec('create table if not exists t (x); insert into t values (1)');
    const read = () => reader.exec('begin; select * from t');
    const file = new LogFile(db);
    write();
    file.noteRemoval();
    read();
    assert.is(file.checkpoint(), 'The write-ahead log is being read.');
    write();
    assert.match(file.checkpoint() ?? '', /^1 pages of the write-ahead log were not written back/);
    reader.exec('commit');
    assert.is(file.checkpoint(), null);
    assert.is(statSync(`${path}-wal`).size, 0);
    write();
    read();
    write();
    assert.is(file.checkpoint(), null, 'without a removal some pages may stay');
  } finally {
    reader.close();
    db.close();
    rmSync(folder, { recursive: true });
  }
});

test(
  'the last event of the log stays, also of an earlier boot without runs',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    const events = [1, 2, 3].map((seq) => event(seq, 'provider:a:boot_1', seq));
    await store.append({ events, runs: [] });
    assert.equal(await pruneAll(store), { runs: 0, events: 0, steps: 1 });
    await store.append({ events: [event(4, 'daemon:boot_2', 1, { boot_id: 'boot_2' })], runs: [] });
    assert.equal(await pruneAll(store), { runs: 0, events: 3, steps: 1 });
    assert.ok((await store.verify()).ok);
    await store.close();
  }),
);

test.run();
