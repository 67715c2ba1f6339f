import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import Database from 'better-sqlite3';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { LOG_FORMAT } from '../../../machines/events.ts';
import type { SvcError } from '../../../src/errors.ts';
import { readHeader } from '../../../src/kernel/store/files/database-file.ts';
import { inspectStore } from '../../../src/kernel/store/inspect/inspect.ts';
import { FIRST_OF_ASKER, LAST_OF_ASKER } from '../../../src/kernel/store/places.ts';
import { SCHEMA, schemaOf } from '../../../src/kernel/store/schema.ts';
import { PRICED } from '../../../src/kernel/store/usage-sums.ts';
import { inject, possible } from './inject.ts';
import { startWriter } from './process.ts';
import { codeOf, event, makePlace, type Place, placed, run, used } from './samples.ts';

/**
 * A log of the first version. Its clock was set back by an hour between `run_a` and the others.
 * `run_a` and `run_b` have the same idempotency key.
 */
const OLD = fileURLToPath(new URL('../../fixtures/store/version-1.db.gz', import.meta.url));

function putOld({ database }: Place): void {
  mkdirSync(dirname(database), { recursive: true, mode: 0o700 });
  writeFileSync(database, gunzipSync(readFileSync(OLD)));
}

/** The runs of the old log in their order, and what is known of each. */
async function checkUpgraded(place: Place): Promise<void> {
  const store = place.store();
  const { first_seq, last_seq, last_boot_id } = await store.open();
  assert.equal([first_seq, last_seq, last_boot_id], [1, 9, 'boot_1']);
  assert.equal(
    (await store.listRuns({ limit: 9 })).map(({ run_id }) => run_id),
    ['run_d', 'run_c', 'run_b', 'run_a'],
  );
  const { model = '' } = (await store.getRun('run_a')) ?? {};
  const ofModel = (await store.listRuns({ limit: 9, model })).map(({ run_id }) => run_id);
  assert.is(ofModel.at(-1), 'run_a', 'a column that the old log did not have');
  assert.equal(await store.unfinishedRuns(), ['run_b', 'run_d']);
  assert.is(
    (await store.getRunByKey('k'))?.run_id,
    'run_a',
    'of two with one key the first keeps it',
  );
  assert.is((await store.getRunByKey('l'))?.run_id, 'run_c');
  assert.equal(await store.runsAt(6, 9), ['run_a', 'run_b', 'run_c']);
  assert.equal(await store.startedStreams(1, 9, 9), ['daemon:boot_1', 'provider:local:boot_1']);
  const finished = {
    state: 'completed',
    finished: true,
    created_at: 5_000_000,
    idempotency_key: 'k',
    record: { id: 'run_a', output: 'one' },
  };
  assert.equal(await store.getRun('run_a'), run('run_a', { ...finished, seq: 6 }));
  assert.equal(await store.verify(), { ok: true, events: 9, problems: [] });
  await store.close();
}

test(
  'the open upgrades a log of the first version, which continues',
  placed(async (place) => {
    putOld(place);
    await checkUpgraded(place);
    const db = new Database(place.database, { readonly: true });
    assert.equal(
      db.prepare('select run_id, accepted_seq, ended_at from runs order by accepted_seq').all(),
      [
        { run_id: 'run_a', accepted_seq: 3, ended_at: 1_400_002 },
        { run_id: 'run_b', accepted_seq: 4, ended_at: null },
        { run_id: 'run_c', accepted_seq: 5, ended_at: 1_400_003 },
        { run_id: 'run_d', accepted_seq: 8, ended_at: null },
      ],
    );
    db.close();
    const store = place.store();
    await store.open();
    await store.append({
      events: [event(10, 'run_b', 2)],
      runs: [run('run_b', { finished: true, seq: 10 })],
    });
    assert.equal(await store.unfinishedRuns(), ['run_d']);
    await store.close();
  }),
);

test(
  'the index of askers loses the runs of the home, and a commit of them no longer touches it',
  placed(async (place) => {
    const of = (seq: number, data: object) => ({
      events: [event(seq, `run_${seq}`, 1, { type: 'run.accepted', data: { ...data } })],
      runs: [run(`run_${seq}`, { seq })],
    });
    const store = place.store();
    await store.open();
    for (const [index, by] of [{}, { asked_by: 'cat' }, {}, { asked_by: 'cat' }].entries())
      await store.append(of(index + 1, by));
    await store.close();
    const old = new Database(place.database);
    old.exec(`drop index askers; create index askers on events (
      case when json_valid(data) then data ->> '$.asked_by' end, seq
    ) where version = 1 and type = 'run.accepted'`);
    old.close();
    const again = place.store();
    await again.open();
    assert.equal(
      [await again.lastRun(null, null), await again.lastRun(null, 'cat')],
      ['run_3', 'run_4'],
    );
    await again.close();
    const db = new Database(place.database, { readonly: true });
    const { sql } = db.prepare(`select sql from sqlite_schema where name = 'askers'`).get() as {
      sql: string;
    };
    assert.match(sql, /is not null$/);
    for (const query of [FIRST_OF_ASKER, LAST_OF_ASKER]) {
      const [plan] = db.prepare(`explain query plan ${query}`).all({ asked_by: 'cat' });
      assert.match((plan as { detail: string }).detail, /INDEX askers/);
    }
    db.close();
  }),
);

test(
  'sums that an older version counted have no cost, and later ones do',
  placed(async (place) => {
    const of = (seq: number) => ({
      events: [event(seq, `run_${seq}`, 1, { type: 'run.accepted' })],
      runs: [run(`run_${seq}`, { finished: true, seq, record: {}, usage: used() })],
    });
    const store = place.store();
    await store.open();
    await store.append(of(1));
    await store.close();
    const old = new Database(place.database);
    for (const column of PRICED) old.exec(`alter table cache_usage drop column ${column}`);
    for (const column of ['cost', 'priced_input_tokens'])
      old.exec(`alter table embedding_usage drop column ${column}`);
    old.close();
    for (const [seq, cost] of [
      [2, 11],
      [3, 22],
    ] as const) {
      const again = place.store();
      await again.open();
      await again.append(of(seq));
      const [sum] = (await again.usage({ from_hour: 0, key: null })).sums;
      const { runs, input_tokens, cached_tokens, priced_input_tokens } = sum ?? {};
      assert.equal(
        [runs, input_tokens, cached_tokens, sum?.cost, priced_input_tokens],
        [seq, 7 * seq, 3 * seq, cost, 7 * (seq - 1)],
      );
      await again.close();
    }
  }),
);

test(
  'the doctor reads a log of the first version without a change',
  placed(async (place) => {
    putOld(place);
    const before = readFileSync(place.database);
    const found = await inspectStore(place);
    assert.equal(
      found.state === 'read' && [found.last_seq, found.unfinished_runs, found.verify.ok],
      [9, ['run_b', 'run_d'], true],
    );
    assert.ok(readFileSync(place.database).equals(before));
  }),
);

test(
  'a damaged log of the first version is refused and not changed',
  placed(async (place) => {
    putOld(place);
    const bytes = readFileSync(place.database);
    writeFileSync(
      place.database,
      Buffer.from(bytes.toString('latin1').replace('{"seq":5}', '{"seq":6}'), 'latin1'),
    );
    const before = readFileSync(place.database);
    const store = place.store();
    assert.is(await codeOf(store.open()), 'store_corrupt');
    assert.ok(readFileSync(place.database).equals(before));
  }),
);

(possible ? test : test.skip)(
  'a start that is killed while it brings a log forward, at one write after the other, leaves it to the next',
  async () => {
    let killed = 0;
    for (const call of ['pwrite64', 'fsync', 'fdatasync']) {
      for (let when = 1; when <= 60; when += 5) {
        const place = makePlace();
        try {
          putOld(place);
          const writer = startWriter(place, {}, inject(`${call}:signal=SIGKILL:when=${when}`));
          const said = await writer.says('open', 'refused');
          await writer.end('close');
          if (writer.child.signalCode === 'SIGKILL') killed += 1;
          await checkUpgraded(place);
          if (said !== '') break;
        } finally {
          place.remove();
        }
      }
    }
    assert.ok(killed >= 5, `${killed} were killed`);
  },
);

test(
  'the first event of a newer kind gives the log its format, so an older version refuses it whole',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    await store.append({ events: [event(1, 'mcp_like', 1)], runs: [] });
    assert.is(await formatNow(place, store), SCHEMA, 'no event needs a newer one');
    const again = place.store();
    await again.open();
    await again.append({ events: [event(2, 'mcp:a:b:1', 1, { type: 'mcp.created' })], runs: [] });
    await again.append({ events: [event(3, 'mcp_like', 2)], runs: [] });
    assert.is(await formatNow(place, again), 4);
    const later = place.store();
    assert.is((await later.open()).last_seq, 3, 'and this version reads it');
    assert.equal((await later.verify()).problems, []);
    await later.close();
  }),
);

test(
  'a log of a newer format is refused as it is: by an open, and by what reads a copy',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    await store.append({ events: [event(1, 'a', 1)], runs: [] });
    await store.close();
    const db = new Database(place.database);
    db.pragma(`user_version = ${LOG_FORMAT + 1}`);
    db.close();
    const before = readFileSync(place.database);
    const error = (await place
      .store()
      .open()
      .catch((thrown: unknown) => thrown)) as SvcError;
    assert.is(error.code, 'store_foreign');
    assert.match(error.message, `its format is ${LOG_FORMAT + 1}, and svc `);
    assert.match(error.hint, 'Install that version again');
    const found = await inspectStore(place);
    assert.is(found.state === 'unreadable' && found.error.code, 'store_foreign');
    assert.equal(readFileSync(place.database), before);
  }),
);

/** The format in the file of a store, which it closes. */
async function formatNow({ database }: Place, store: { close(): Promise<void> }): Promise<number> {
  await store.close();
  return schemaOf(readHeader(database).user_version);
}

test.run();
