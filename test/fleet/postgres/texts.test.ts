import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { TEXTS_FORMAT } from '../../../machines/events.ts';
import type { EventStore } from '../../../src/kernel/store/port.ts';
import { type Postgres, postgresPrograms, startPostgres } from '../../helpers/postgres.ts';
import { event, run } from '../../kernel/store/samples.ts';
import { databaseOf, makePlace, type Place, textsIn } from './subject.ts';

const on = postgresPrograms === null ? test.skip : test;
let server: Postgres | null = null;
let database = '';
test.before(async () => {
  if (postgresPrograms === null) return;
  server = await startPostgres();
  database = await databaseOf(server);
});
test.after(() => server?.end());

async function inPlace(work: (place: Place) => Promise<void>): Promise<void> {
  const place = makePlace(database);
  try {
    await work(place);
  } finally {
    await place.remove();
  }
}

const LONG = `prompt ${'x'.repeat(300)}`;

/** A run that ends at once, with a long prompt in its event and in its record. */
function finish(store: EventStore, run_id: string): Promise<unknown> {
  const record = { prompt: LONG, seq: 2 };
  return store.append({
    events: [
      event(1, run_id, 1, { type: 'run.accepted', data: { messages: [LONG] } }),
      event(2, run_id, 2),
    ],
    runs: [run(run_id, { seq: 2, state: 'completed', finished: true, record })],
  });
}

const usersIn = async (place: Place) =>
  (await textsIn(place).all()).map(({ text, users }) => [text.slice(0, 8), users]);

on('a text that another node removed meanwhile is written again', () =>
  inPlace(async (place) => {
    const [first, second] = [place.store(), place.store({ node_id: 'node_2' })];
    await first.open();
    await second.open();
    await finish(first, 'run_a');
    assert.equal(await usersIn(place), [['"prompt ', 2]]);
    await second.append({ events: [event(1, 'daemon:b', 1)], runs: [] });
    assert.is((await second.removeRun('run_a')).runs, 1);
    assert.equal(await usersIn(place), []);
    await finish(first, 'run_b');
    assert.equal(await usersIn(place), [['"prompt ', 2]]);
    await finish(second, 'run_c');
    assert.equal(await usersIn(place), [['"prompt ', 4]]);
    for (const store of [first, second])
      assert.is((await store.getRun('run_c'))?.record?.prompt, LONG);
    assert.ok((await first.verify()).ok);
    await first.close();
    await second.close();
  }),
);

on('no text is put apart while a living node has another version', () =>
  inPlace(async (place) => {
    const [first, second] = [place.store(), place.store({ node_id: 'node_2' })];
    await first.open();
    await second.open();
    await place.ask(`update svc_nodes set version = 'older' where node_id = 'node_2'`);
    await finish(first, 'run_a');
    assert.equal(await usersIn(place), []);
    assert.ok((await textsIn(place).format()) < TEXTS_FORMAT);
    await second.fleet.leave();
    await finish(first, 'run_b');
    assert.equal(await usersIn(place), [['"prompt ', 2]]);
    assert.is(await textsIn(place).format(), TEXTS_FORMAT);
    const shown = await Promise.all(['run_a', 'run_b'].map((id) => first.getRun(id)));
    assert.equal(
      shown.map((row) => row?.record?.prompt),
      [LONG, LONG],
    );
    await first.close();
    await second.close();
  }),
);

test.run();
