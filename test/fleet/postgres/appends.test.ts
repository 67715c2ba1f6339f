import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SCHEMA } from '../../../src/fleet/postgres/schema.ts';
import { type Postgres, postgresPrograms, startPostgres } from '../../helpers/postgres.ts';
import { accepted, codeOf, event, run, series } from '../../kernel/store/samples.ts';
import { databaseOf, makePlace, type Place } from './subject.ts';

const on = postgresPrograms === null ? test.skip : test;
let server: Postgres | null = null;
let database = '';

test.before(async () => {
  if (postgresPrograms === null) return;
  server = await startPostgres();
  database = await databaseOf(server);
});
test.after(() => server?.end());

async function placed(work: (place: Place, server: Postgres) => Promise<void>): Promise<void> {
  assert.ok(server);
  const place = makePlace(database);
  try {
    await work(place, server);
  } finally {
    await place.remove();
  }
}

const COMMITS = 60;
const AWAY = { store_retry_ms: 10, store_wait_ms: 100 };

on('commits whose connections are cut are in the log once, in order', () =>
  placed(async (place) => {
    const store = place.store({ limits: AWAY });
    await store.open();
    const over = new AbortController();
    // Each connection is a process, so all cuts come from one.
    const cutter = new pg.Client({ connectionString: place.address });
    await cutter.connect();
    const seqs: number[] = [];
    let cuts = 0;
    const cutting = (async () => {
      for (let committed = -1; !over.signal.aborted; await delay(3)) {
        // A commit that is cut again and again would never end.
        if (seqs.length === committed) continue;
        const { rowCount } = await cutter.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
             where application_name = 'svc' and query like 'with fence%'`,
        );
        if (!rowCount) continue;
        cuts += rowCount;
        committed = seqs.length;
      }
    })().finally(() => cutter.end());
    for (let version = 1; version <= COMMITS; version += 1)
      seqs.push(
        (await store.append({ events: [event(version, 's', version)], runs: [] })).first_seq,
      );
    over.abort();
    await cutting;
    assert.ok(cuts > COMMITS / 4, `${cuts} connections were cut`);
    assert.equal(
      seqs,
      Array.from({ length: COMMITS }, (_, index) => index + 1),
    );
    assert.is((await store.readAll(1, 1000)).length, COMMITS);
    assert.equal(await store.verify(), { ok: true, events: COMMITS, problems: [] });
    await store.close();
  }),
);

on('a commit waits for a database that has crashed, and reads are refused meanwhile', () =>
  placed(async (place, postgres) => {
    const store = place.store({ limits: AWAY });
    await store.open();
    await store.append(series(1, 2));
    await postgres.stop('kill');
    const waiting = store.append(series(3, 2));
    assert.is(await codeOf(store.readAll(1, 10)), 'store_stalled');
    await postgres.start();
    assert.is((await waiting).first_seq, 3);
    assert.equal(
      (await store.readAll(1, 10)).map(({ seq }) => seq),
      [1, 2, 3, 4],
    );
    await store.close();
  }),
);

on('two writers have one order without holes, and each keeps the order of its commits', () =>
  placed(async (place) => {
    const stores = ['a', 'b'].map((node_id) => place.store({ node_id }));
    for (const store of stores) await store.open();
    const written = await Promise.all(
      stores.map(async (store, writer) => {
        const seqs: number[] = [];
        for (let version = 1; version <= 60; version += 1)
          seqs.push(
            (await store.append({ events: [event(1, `s${writer}`, version)], runs: [] })).first_seq,
          );
        return seqs;
      }),
    );
    for (const seqs of written)
      assert.equal(
        seqs,
        seqs.toSorted((a, b) => a - b),
      );
    assert.equal(
      written.flat().sort((a, b) => a - b),
      Array.from({ length: 120 }, (_, index) => index + 1),
    );
    for (const store of stores) await store.close();
  }),
);

on('a follower never sees a hole that is filled later', () =>
  placed(async (place) => {
    const stores = ['a', 'b', 'c'].map((node_id) => place.store({ node_id }));
    for (const store of stores) await store.open();
    let isOver = false;
    const writing = Promise.all(
      stores.slice(1).map(async (store, writer) => {
        for (let version = 1; version <= 60; version += 1)
          await store.append({ events: [event(1, `s${writer}`, version)], runs: [] });
      }),
    ).then(() => {
      isOver = true;
    });
    const seen: number[] = [];
    for (let last = false; !last; ) {
      last = isOver;
      seen.push(...((await stores[0]?.readAll(seen.length + 1, 1000)) ?? []).map(({ seq }) => seq));
    }
    await writing;
    assert.equal(
      seen,
      Array.from({ length: 120 }, (_, index) => index + 1),
    );
    for (const store of stores) await store.close();
  }),
);

on('events and rows that were changed or removed in the database are found', () =>
  placed(async (place) => {
    const store = place.store();
    await store.open();
    await store.append(series(1, 3));
    await store.append(accepted(4, [run('run_1', { seq: 4 }), run('run_2', { seq: 5 })]));
    assert.ok((await store.verify()).ok);
    await place.ask(`update svc_events set data = '{"seq":9}' where seq = 2`);
    assert.is(await codeOf(store.readAll(1, 10)), 'store_corrupt');
    assert.match((await store.verify()).problems.join(' '), /The event 2 .* digest/);
    await place.ask(`update svc_events set data = '{"seq":2}' where seq = 2`);
    assert.ok((await store.verify()).ok);
    await place.ask(
      `update svc_runs set data = replace(data, 'queued', 'done') where run_id = 'run_1'`,
    );
    assert.is(await codeOf(store.getRun('run_1')), 'store_corrupt');
    await place.ask(`delete from svc_runs where run_id = 'run_1'`);
    assert.is(await codeOf(store.getRun('run_1')), 'store_corrupt', 'it was accepted');
    await place.ask('delete from svc_events where seq = 3');
    const { problems } = await store.verify();
    assert.match(problems.join(' '), /The record of the run run_1 is missing/);
    assert.match(problems.join(' '), /came to the event 5, and 0 were removed, but it has 4/);
    await store.close();
  }),
);

on(
  'the first event of a newer kind gives the shared log its format, which a later start reads',
  () =>
    placed(async (place) => {
      const formatNow = async () => {
        const client = new pg.Client({ connectionString: place.address });
        await client.connect();
        const { rows } = await client.query(`select value from svc_meta where name = 'schema'`);
        await client.end();
        return Number(rows[0]?.value);
      };
      const store = place.store();
      await store.open();
      await store.append({ events: [event(1, 's', 1)], runs: [] });
      assert.is(await formatNow(), SCHEMA);
      for (const seq of [2, 3])
        await store.append({
          events: [event(seq, 'm', seq - 1, { type: 'mcp.created' })],
          runs: [],
        });
      assert.is(await formatNow(), 4);
      await store.close();
      const again = place.store();
      assert.is((await again.open()).last_seq, 3);
      await again.close();
    }),
);

test.run();
