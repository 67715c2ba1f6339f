import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { MIGRATIONS, SCHEMA } from '../../../src/fleet/postgres/schema.ts';
import { type Postgres, postgresPrograms, startPostgres } from '../../helpers/postgres.ts';
import { ALL, accept, ids, next } from '../../kernel/store/fleet-nodes.ts';
import { run } from '../../kernel/store/samples.ts';
import { databaseOf, makePlace, type Place } from './subject.ts';

/**
 * A database of an older version, with a log, is upgraded by the next start. An older build may
 * have made the present version without its added columns.
 */

const on = postgresPrograms === null ? test.skip : test;
let server: Postgres | null = null;

test.before(async () => {
  if (postgresPrograms !== null) server = await startPostgres();
});
test.after(() => server?.end());

const NAME = 'node_1';
const DONE = { state: 'completed', finished: true, record: { prompt: 'hello', output: 'you' } };

/** A log with a run that has ended, one in progress, and one that waits. */
async function writeLog(place: Place): Promise<void> {
  const store = place.store();
  await store.open();
  await store.append(accept(NAME, run('run_1'), run('run_2'), run('run_3', { due_at: 9e12 })));
  await store.append(next(NAME, 2, run('run_1', DONE)));
  await store.append(next(NAME, 2, run('run_2', { state: 'streaming' })));
  await store.fleet.release(['run_3']);
  await store.fleet.leave();
  await store.close();
}

/** The tables of this version, with the rows of the other place. */
async function makeOld(from: Place, to: Place, version: number): Promise<void> {
  const [source, schema] = [from, to].map(schemaOf);
  await to.ask(`create schema ${schema}`);
  await to.ask('create table svc_meta (name text primary key, value text not null)');
  await to.ask(MIGRATIONS.slice(0, version).join('\n'));
  await to.ask('delete from svc_log');
  const columns = await to.ask(
    `select table_name as name, string_agg(column_name, ', ') as columns
     from information_schema.columns where table_schema = $1 group by table_name`,
    [schema],
  );
  for (const { name, columns: shared } of columns)
    await to.ask(`insert into ${name} (${shared}) select ${shared} from ${source}.${name}`);
  await to.ask(`update svc_meta set value = $1 where name = 'schema'`, [String(version)]);
}

function schemaOf({ address }: Place): string {
  return new URL(address).searchParams.get('options')?.split('=').at(-1) ?? '';
}

for (let version = 1; version <= SCHEMA; version += 1)
  on(`the tables of version ${version} are upgraded with their rows`, async () => {
    const database = await databaseOf(server);
    const [current, old] = [makePlace(database), makePlace(database)];
    await writeLog(current);
    await makeOld(current, old, version);
    const before = await current.ask('select * from svc_events order by seq');
    const store = old.store();
    await store.open();
    assert.equal(await old.ask('select * from svc_events order by seq'), before);
    assert.ok((await store.verify()).ok);
    assert.equal(
      (await store.listRuns({ limit: 9 })).map((row) => ('state' in row ? row.state : row.damage)),
      ['queued', 'streaming', 'completed'],
    );
    assert.equal((await store.searchRuns({ terms: ['hello'], limit: 9 })).map(idOf), ['run_1']);
    assert.equal(ids(await store.fleet.claim(ALL)).sort(), ['run_2', 'run_3']);
    await store.append(next(NAME, 3, run('run_2', DONE)));
    const [meta] = await old.ask(`select value from svc_meta where name = 'schema'`);
    assert.is(meta?.value, String(SCHEMA));
    const tables = (place: Place) =>
      place.ask(
        `select tablename, indexdef from pg_indexes where schemaname = $1
         order by tablename, indexname`,
        [schemaOf(place)],
      );
    const named = (rows: Record<string, unknown>[], place: Place) =>
      rows.map(({ tablename, indexdef }) => [
        tablename,
        String(indexdef).replaceAll(`${schemaOf(place)}.`, ''),
      ]);
    assert.equal(named(await tables(old), old), named(await tables(current), current));
    await store.close();
    for (const place of [current, old]) await place.remove();
  });

const idOf = ({ run_id }: { run_id: string }) => run_id;

test.run();
