import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { openPostgresSource } from '../../../../src/fleet/postgres/export.ts';
import { openPostgresTarget } from '../../../../src/fleet/postgres/import.ts';
import { databaseOf, makePlace as makeDatabase } from '../../../fleet/postgres/subject.ts';
import { type Postgres, postgresPrograms, startPostgres } from '../../../helpers/postgres.ts';
import { bootRuntime } from '../../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../../helpers/scripted-provider.ts';
import { waitFor } from '../../../helpers/wait.ts';
import { ALL } from '../fleet-nodes.ts';
import { codeOf, placed } from '../samples.ts';
import { afterHeader, limits, sourceOf, take, targetOf, textOf } from './files.ts';
import { type MadeLog, makeLog, seenIn } from './logs.ts';

const on = postgresPrograms === null ? test.skip : test;
let server: Postgres | null = null;
/** The log that most tests move, and its text. */
let from: MadeLog;
let original = '';

test.before(async () => {
  from = await makeLog();
  original = await textOf(sourceOf(from));
  if (postgresPrograms !== null) server = await startPostgres();
});
test.after(async () => {
  from.remove();
  await server?.end();
});

/** A schema of a database for one log. */
async function inDatabase(
  work: (
    options: Parameters<typeof openPostgresTarget>[0],
    database: ReturnType<typeof makeDatabase>,
    schema: string,
  ) => Promise<void>,
): Promise<void> {
  const database = makeDatabase(await databaseOf(server));
  const { address } = database;
  const schema = address.slice(address.lastIndexOf('%3D') + 3);
  await database.ask(`create schema ${schema}`);
  await work({ address, password: null, limits }, database, schema);
}

on('a log moves from SQLite to PostgreSQL and back, and nothing of it changes', () =>
  inDatabase((options, database) =>
    placed(async (to) => {
      assert.is(await openPostgresSource(options), null, 'there is no log yet');
      await take(await openPostgresTarget(options), original);
      const shared = await openPostgresSource(options);
      assert.ok(shared);
      const back = await textOf(shared);
      assert.is(afterHeader(back), afterHeader(original));
      await take(targetOf(to), back);
      assert.is(afterHeader(await textOf(sourceOf(to))), afterHeader(original));

      const first = await seenIn(from.store(limits));
      assert.ok(first.verified.ok);
      assert.equal(await seenIn(to.store(limits)), first);
      const node = database.store();
      let claimed: Awaited<ReturnType<typeof node.fleet.claim>> = [];
      const shown = await seenIn(node, async () => {
        claimed = await node.fleet.claim({ ...ALL, providers: ['local'] });
      });
      assert.equal(shown, first);
      assert.equal(
        claimed.map(({ run_id, waits }) => [run_id, waits]),
        [[from.open, false]],
      );
      assert.ok((claimed[0]?.downtime_ms ?? 0) > 0, 'its deadlines paused');
      assert.is(await codeOf(openPostgresTarget(options)), 'store_not_empty');
    })(),
  ),
);

on('an import into a database that ends early leaves no table, and keeps daemons away', () =>
  inDatabase(async (options, database, schema) => {
    const tables = () =>
      database.ask('select tablename from pg_tables where schemaname = $1', [schema]);
    const target = await openPostgresTarget(options);
    const daemon = database.store({ limits: { store_answer_ms: 200, store_wait_ms: 10 } });
    const refused = await daemon.open().then(String, String);
    assert.is(await codeOf(take(target, original.slice(0, -200))), 'import_invalid');
    assert.match(refused, /A log is being imported into the database/);
    assert.equal(await tables(), []);
    assert.is((await take(await openPostgresTarget(options), original)).events, 47);
  }),
);

on('an import that was cut off is no log for any daemon, and the next one begins anew', () =>
  inDatabase(async (options, database, schema) => {
    const target = await openPostgresTarget(options);
    await target.texts(['"a text that nobody needs"']);
    const [importer] = await database.ask(
      `select pid, state from pg_stat_activity where query like '%svc_text%'
         and pid <> pg_backend_pid() order by query_start desc limit 1`,
    );
    assert.is(importer?.state, 'idle', 'it has no transaction');
    const [texts] = await database.ask(`select count(*)::int as count from ${schema}.svc_texts`);
    assert.is(texts?.count, 1, 'each part is written before the next one');
    await database.ask('select pg_terminate_backend($1)', [importer?.pid]);
    await target.close();
    const refused = await database.store().open().then(String, String);
    assert.match(refused, /A log is being imported into the database .*, or that was cut off/);
    assert.is(await codeOf(openPostgresSource(options)), 'store_foreign');
    assert.is((await take(await openPostgresTarget(options), original)).events, 47);
    const shared = await openPostgresSource(options);
    assert.ok(shared);
    assert.is(afterHeader(await textOf(shared)), afterHeader(original));
  }),
);

test('a text of several events is one line, and a file without it is refused', () =>
  placed(async (to) => {
    const lines = original.trimEnd().split('\n');
    assert.is(JSON.parse(lines[0] ?? '').format_version, 2);
    const texts = lines.filter((line) => line.startsWith('{"text":'));
    assert.is(texts.filter((line) => line.includes('\\"7 long ')).length, 1);
    const at = lines.findIndex((line) => line.includes('\\"7 long '));
    const without = [...lines.toSpliced(at, 1), ''].join('\n');
    const refused = await take(targetOf(to), without).then(String, String);
    assert.match(refused, /The log of the file is wrong. The text [\w-]{32} is missing/);
    assert.is((await take(targetOf(to), original)).events, 47, 'the store is as it was');
  })());

test(
  'outputs that are only in records move, and so do usage and gaps',
  placed(async (to) => {
    const redacted = await makeLog({ redact: true });
    try {
      const text = await textOf(sourceOf(redacted));
      assert.match(text, /\{"run_id":"run_\w+","record":\{/);
      await take(targetOf(to), text, 1000);
      const first = await seenIn(redacted.store(limits));
      assert.equal(await seenIn(to.store(limits)), first);
      const { runs, usage } = first;
      assert.ok(runs.length > 3 && usage.sums.some(({ embeddings }) => embeddings === 1));
      assert.is(usage.sums.find(({ key }) => key === 'somebody')?.runs, 6, 'with the removed run');
      for (const { cost, input_tokens, output_tokens, embeddings } of usage.sums) {
        const price = embeddings === 1 ? 2000 : 3000;
        assert.is(cost, price * input_tokens + 5000 * output_tokens);
        assert.ok(cost > 0);
      }
      assert.is(afterHeader(await textOf(sourceOf(to))), afterHeader(text));
    } finally {
      redacted.remove();
    }
  }),
);

test(
  'a daemon goes on with the run in progress of an imported log',
  placed(async (to) => {
    await take(targetOf(to), original);
    const store = to.store(limits);
    const local = new ScriptedProvider('local', [output('and on', 4), finish()]);
    const { runtime, kernel } = await bootRuntime({ local, store, boot_id: 'boot_3' });
    await waitFor('it has ended', () => !kernel.instances.has(from.open));
    const { state, output: text } = await runtime.runs.get(from.open);
    kernel.close();
    await store.close();
    assert.equal([state, text], ['completed', 'so far and on']);
  }),
);

test(
  'an import that ends early leaves an empty log, and a log that has events is refused',
  placed(async (to) => {
    assert.is(await codeOf(take(targetOf(to), original.slice(0, -200))), 'import_invalid');
    const store = to.store(limits);
    const { last_seq } = await store.open();
    const whileOpen = await codeOf(Promise.resolve().then(() => targetOf(to)));
    await store.close();
    assert.equal([last_seq, whileOpen], [0, 'daemon_already_running']);
    await take(targetOf(to), original);
    assert.throws(() => targetOf(to), /has events already/);
  }),
);

test(
  'an import that is killed leaves an empty log, and the next one is whole',
  placed(async (to) => {
    const script = fileURLToPath(new URL('./import-process.ts', import.meta.url));
    const child = spawn(process.execPath, [script, to.database, to.highWater], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const gone = once(child, 'close');
    child.stdin.write(original.slice(0, -200));
    await Promise.race([once(child.stdout, 'data'), gone]);
    assert.is(child.exitCode, null, 'it waits for more');
    child.kill('SIGKILL');
    await gone;
    const found = await seenIn(to.store(limits));
    assert.equal([found.events, found.verified.problems], [[], []]);
    assert.is((await take(targetOf(to), original)).events, 47);
    assert.ok((await seenIn(to.store(limits))).verified.ok);
  }),
);

test.run();
