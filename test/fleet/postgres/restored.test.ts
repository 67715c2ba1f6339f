import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SharedStore } from '../../../src/fleet/port.ts';
import { type Postgres, postgresPrograms, startPostgres } from '../../helpers/postgres.ts';
import { codeOf, event, series } from '../../kernel/store/samples.ts';
import { databaseOf, makePlace, type Place } from './subject.ts';

/** A database that has less than its nodes know: a copy was restored, or a standby was behind. */

const on = postgresPrograms === null ? test.skip : test;
let server: Postgres | null = null;

test.before(async () => {
  if (postgresPrograms !== null) server = await startPostgres();
});
test.after(() => server?.end());

const AWAY = { store_retry_ms: 10, store_wait_ms: 5000, lease_ms: 60_000 };

async function placed(work: (place: Place, server: Postgres) => Promise<void>): Promise<void> {
  assert.ok(server);
  await work(makePlace(await databaseOf(server)), server);
}

async function opened(place: Place, node_id = 'node_1'): Promise<SharedStore> {
  const store = place.store({ limits: AWAY, node_id });
  await store.open();
  return store;
}

/** Each call ends the boot. */
async function expectLost(store: SharedStore): Promise<void> {
  assert.is(await codeOf(store.readAll(1, 10)), 'lease_lost');
  assert.is(await codeOf(store.fleet.renew({ active: 0, capacity: 1 })), 'lease_lost');
  assert.is(await codeOf(store.append({ events: [event(9, 'new', 1)], runs: [] })), 'lease_lost');
  await store.close();
}

on('a node that wrote what the database has no more can write and read nothing', () =>
  placed(async (place, postgres) => {
    const store = await opened(place);
    await store.append(series(1, 2));
    const restore = await postgres.copy();
    await store.append(series(3, 2));
    await restore();
    await expectLost(store);
  }),
);

on('so can one that only read it, also when others have written as much again', () =>
  placed(async (place, postgres) => {
    const [writer, reader] = [await opened(place, 'node_1'), await opened(place, 'node_2')];
    await writer.append(series(1, 2));
    const restore = await postgres.copy();
    await writer.append(series(3, 2));
    assert.is((await reader.readAll(1, 10)).length, 4);
    await restore();
    const next = place.store({ limits: AWAY, node_id: 'node_3' });
    await next.open();
    await next.append({
      events: [1, 2, 3].map((version) => event(version, 'of another', version)),
      runs: [],
    });
    assert.is((await next.readAll(1, 10)).length, 5);
    await expectLost(reader);
    await writer.close();
    await next.close();
  }),
);

on('a node that knows no more than the copy goes on', () =>
  placed(async (place, postgres) => {
    const store = await opened(place);
    await store.append(series(1, 2));
    const restore = await postgres.copy();
    await restore();
    assert.is((await store.append(series(3, 2))).first_seq, 3);
    await store.close();
  }),
);

on('an event that was removed is not missed', () =>
  placed(async (place, postgres) => {
    const store = await opened(place);
    await store.append(series(1, 2));
    await place.ask('delete from svc_events where seq = 2');
    await postgres.stop('kill');
    await postgres.start();
    assert.is((await store.readAll(1, 10)).length, 1);
    await store.close();
  }),
);

on('a standby is refused until it takes over', () =>
  placed(async (place, postgres) => {
    const store = place.store({ limits: { ...AWAY, store_wait_ms: 50 } });
    await store.open();
    await store.append(series(1, 2));
    await postgres.startAsStandby();
    const waiting = store.append(series(3, 2));
    assert.is(await codeOf(store.fleet.renew({ active: 0, capacity: 1 })), 'store_stalled');
    await place.ask('select pg_promote()');
    assert.is((await waiting).first_seq, 3);
    await store.close();
  }),
);

test.run();
