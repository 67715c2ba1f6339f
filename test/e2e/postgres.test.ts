import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Limits } from '../../src/limits.ts';
import { type Postgres, postgresPrograms, startPostgres } from '../helpers/postgres.ts';
import { type Home, limitVariables, makeHome, type Outcome } from '../helpers/svc.ts';
import { Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { ask } from '../torture/http.ts';

const on = postgresPrograms === null ? test.skip : test;

/** One server for all tests. The first three share a database and a home. */
let postgres: Postgres;
/** Answers at once: the engine is not looked at here. */
let upstream: Upstream;
let kept: Home;

test.before(async () => {
  if (postgresPrograms === null) return;
  postgres = await startPostgres({ durable: true });
  upstream = await Upstream.start((exchange) =>
    exchange.received.path.endsWith('/models')
      ? exchange.reply(200, { data: [{ id: 'm' }] })
      : exchange.answer('hello to you'),
  );
  kept = await makeFleetHome();
});
test.after(async () => {
  await kept?.close();
  await upstream?.stop();
  await postgres?.end();
});

async function makeFleetHome(limits: Partial<Limits> = {}): Promise<Home> {
  const store = `${await postgres.database()}&password=hunter2`;
  const home = makeHome({ SVC_STORE: store, ...limitVariables(limits) });
  mkdirSync(dirname(home.paths.config), { recursive: true, mode: 0o700 });
  const providers = { near: { base_url: upstream.base_url, model: 'm' } };
  const settings = { providers, default_provider: 'near' };
  writeFileSync(home.paths.config, JSON.stringify(settings), { mode: 0o600 });
  return home;
}

async function withDaemon(
  work: (home: Home) => Promise<void>,
  limits: Partial<Limits>,
): Promise<void> {
  const home = await makeFleetHome(limits);
  try {
    await works(home, ['start']);
    await work(home);
    await works(home, ['stop']);
  } finally {
    await home.close();
  }
}

/** A command that fails says why. */
async function works(home: Home, args: readonly string[]): Promise<void> {
  const { code, stderr } = await home.svc(args);
  assert.is(code, 0, `${args.join(' ')}: exit ${code}: ${stderr}`);
}

async function pidOf(home: Home): Promise<number> {
  return (JSON.parse((await home.svc(['status', '--json'])).stdout) as { pid: number }).pid;
}

async function runs(home: Home): Promise<{ id: string; state: string }[]> {
  const { stdout } = await home.svc(['runs', 'list', '--json']);
  return (JSON.parse(stdout) as { runs: { id: string; state: string }[] }).runs;
}

/** The error of a command that finds no daemon and no database. */
function expectAway({ code, stderr }: Outcome, args: readonly string[]): void {
  assert.is.not(code, 0, args.join(' '));
  assert.match(stderr, 'does not answer', args.join(' '));
  assert.match(stderr, 'Then run the command again', args.join(' '));
  assert.not.match(stderr, 'idempotency', args.join(' '));
}

on('a daemon on PostgreSQL keeps its runs over a crash, and no text has the password', async () => {
  const home = kept;
  await works(home, ['start']);
  await works(home, ['run', 'hello']);
  const before = await runs(home);
  assert.equal(
    before.map(({ state }) => state),
    ['completed'],
  );
  process.kill(await pidOf(home), 'SIGKILL');
  await works(home, ['start']);
  assert.equal(await runs(home), before);
  await works(home, ['run', 'hello again']);
  assert.is((await runs(home)).length, 2);
  for (const args of [
    ['config', 'show', '--json'],
    ['config', 'get', 'store'],
    ['status', '--json'],
    ['doctor', '--json'],
    ['logs', '--tail', '100', '--json'],
  ]) {
    const { stdout, stderr } = await home.svc(args);
    assert.not.match(stdout + stderr, /hunter2/, args.join(' '));
  }
});

on('without its daemon, the runs are read from the database', async () => {
  const home = kept;
  const before = await runs(home);
  const read = async (...args: string[]) => {
    const { code, stdout, stderr } = await home.svc(args);
    assert.is(code, 0, stderr);
    return { stdout, stderr };
  };
  const shown = await read('runs', 'show', 'last', '--json');
  const found = await read('runs', 'search', 'hello', '--json');
  const why = await read('runs', 'why', 'last', '--json');
  await read('stop');
  assert.equal(await runs(home), before);
  const after = await read('runs', 'show', 'last', '--json');
  assert.is(after.stdout, shown.stdout);
  assert.match(after.stderr, /not running/);
  assert.is((await read('runs', 'search', 'hello', '--json')).stdout, found.stdout);
  assert.is((await read('runs', 'why', 'last', '--json')).stdout, why.stdout);
  await read('runs', 'export', 'last');
  const elsewhere = { SVC_STORE: home.env.SVC_STORE?.replace(/\/[^/?]*\?/, '/postgres?') ?? '' };
  const none = await home.svc(['runs', 'list'], { env: elsewhere });
  assert.match(none.stderr, /no daemon has run here/);
  await postgres.stop('kill');
  for (const args of [
    ['runs', 'list'],
    ['runs', 'why', 'last'],
    ['runs', 'replay', 'last'],
    ['runs', 'export', 'last'],
    ['runs', 'export', '--all'],
    ['export', '--all'],
    ['import', home.paths.config],
  ])
    expectAway(await home.svc(args), args);
  await postgres.start();
});

on('an export that loses its database says what to do, and leaves no part of a file', async () => {
  const home = kept;
  const output = join(home.folder, 'log.jsonl');
  for (const [table, ...args] of [
    ['svc_usage', 'export', '--all', '--output', output],
    ['svc_events', 'runs', 'export', '--all', '--output', output],
  ]) {
    const client = new pg.Client({ connectionString: home.env.SVC_STORE });
    client.on('error', () => {});
    await client.connect();
    await client.query(`begin; lock table ${table}`);
    const started = home.spawn(args);
    await waitFor('the export waits for the table', async () => {
      const { rows } = await client.query('select from pg_locks where not granted');
      return rows.length > 0;
    });
    assert.ok(existsSync(output));
    await postgres.stop('kill');
    expectAway(await started.ended, args);
    assert.not.ok(existsSync(output));
    await postgres.start();
  }
});

on('an idle daemon without its database is alive and not ready, and goes on by itself', () =>
  withDaemon(
    async (home) => {
      const pid = await pidOf(home);
      const statusOf = async (path: string) => (await ask(home, path)).status;
      assert.is(await statusOf('/readyz'), 200);
      await postgres.stop('kill');
      await waitFor('it is not ready', async () => (await statusOf('/readyz')) === 503);
      assert.is(await statusOf('/livez'), 200);
      const { stdout } = await home.svc(['status', '--json']);
      const { state_path } = JSON.parse(stdout) as { state_path: string };
      assert.is(state_path, 'running.disk_stalled');
      const refused = await ask(home, '/v1/runs', { method: 'POST', body: { prompt: 'hello' } });
      assert.is(refused.status, 503, refused.text);
      assert.is(refused.json.error.code, 'store_stalled');
      assert.is(refused.json.error.retryable, true);
      assert.match(refused.json.error.message, /database/);
      await postgres.start();
      await waitFor('it is ready again', async () => (await statusOf('/readyz')) === 200);
      await works(home, ['run', 'hello']);
      assert.is(await pidOf(home), pid);
    },
    // A commit on a busy machine takes less than these.
    { store_wait_ms: 2000, store_retry_ms: 20, commit_late_ms: 4000 },
  ),
);

on('a daemon whose database was restored from a copy says so, and goes on with what is there', () =>
  withDaemon(
    async (home) => {
      const pid = await pidOf(home);
      await works(home, ['run', 'before']);
      const before = await runs(home);
      const restore = await postgres.copy();
      await waitFor('it is ready', async () => (await ask(home, '/readyz')).status === 200);
      await works(home, ['run', 'after']);
      assert.is((await runs(home)).length, 2);
      await restore();
      await waitFor('it has joined again', async () => {
        const { code, stdout, stderr } = await home.svc(['status', '--json']);
        assert.not.equal(stdout, '', `exit ${code}: ${stderr}`);
        const { last_boot } = JSON.parse(stdout) as { last_boot?: { ending: string } | null };
        return last_boot?.ending === 'lease_lost';
      });
      await waitFor('it is ready', async () => (await ask(home, '/readyz')).status === 200);
      assert.equal(await runs(home), before);
      await works(home, ['run', 'again']);
      assert.is((await runs(home)).length, 2);
      assert.is(await pidOf(home), pid);
      const { stdout } = await home.svc(['logs', '--level', 'error']);
      assert.match(stdout, /has lost events: this node knows its log up to \d+/);
    },
    { store_wait_ms: 1000, store_retry_ms: 20, lease_ms: 2000 },
  ),
);

test.run();
