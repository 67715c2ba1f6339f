import type { ClientConfig, Pool } from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import { Connections } from '../../../src/fleet/postgres/connections.ts';
import { createPostgresStore } from '../../../src/fleet/postgres/postgres.ts';
import { migrate, SCHEMA } from '../../../src/fleet/postgres/schema.ts';
import type { OpenReport } from '../../../src/kernel/store/port.ts';
import { defaultLimits, type Limits } from '../../../src/limits.ts';
import { Pooler } from '../../helpers/pooler.ts';
import { type Postgres, postgresPrograms, startPostgres } from '../../helpers/postgres.ts';
import { codeOf } from '../../kernel/store/samples.ts';

const on = postgresPrograms === null ? test.skip : test;
let server: Postgres | null = null;

test.before(async () => {
  if (postgresPrograms !== null) server = await startPostgres();
});
test.after(() => server?.end());

async function connected(
  work: (connections: Connections, server: Postgres) => Promise<void>,
  limits: Partial<Limits> = {},
): Promise<void> {
  assert.ok(server);
  const connections = await Connections.create({
    address: await server.database(),
    password: null,
    limits: { ...defaultLimits, ...limits },
  });
  try {
    await work(connections, server);
  } finally {
    await connections.end();
  }
}

const migrated = (connections: Connections, log_id = 'log') =>
  connections.transaction((client) => migrate(client, connections.name, log_id));

on('a pooler of transactions is refused at the start, and one of sessions is not', async () => {
  assert.ok(server);
  const address = await server.database();
  for (const mode of ['session', 'transaction'] as const) {
    const pooler = await Pooler.start(server.folder, mode);
    const store = createPostgresStore({
      address: address.replace(server.folder, pooler.folder),
      password: null,
      limits: defaultLimits,
    });
    try {
      const opened = await store.open().catch((error: SvcError) => error);
      if (mode === 'session') assert.is((opened as OpenReport).last_seq, 0);
      else {
        assert.is((opened as SvcError).code, 'store_foreign');
        assert.match((opened as SvcError).message, /a pooler that gives each transaction another/);
        assert.match((opened as SvcError).hint, /pool_mode = session/);
      }
    } finally {
      await store.close();
      await pooler.end();
    }
  }
});

on('daemons that start together make the tables once', () =>
  connected(async (connections) => {
    const other = await Connections.create({
      address: await sameAddress(connections),
      password: null,
      limits: defaultLimits,
    });
    await Promise.all([migrated(connections, 'one'), migrated(other, 'two')]);
    await migrated(connections, 'three');
    const meta = await connections.read<{ name: string; value: string }>(
      'select name, value from svc_meta order by name',
    );
    assert.is(meta.length, 2);
    assert.ok(['one', 'two'].includes(meta[0]?.value ?? ''));
    assert.equal(meta[1], { name: 'schema', value: String(SCHEMA) });
    assert.equal(await connections.read('select last_seq, removed from svc_log'), [
      { last_seq: 0, removed: 0 },
    ]);
    await other.end();
  }),
);

on('tables of a newer version are refused and stay as they are', () =>
  connected(async (connections) => {
    await migrated(connections);
    await connections.read(`update svc_meta set value = '99' where name = 'schema'`);
    const refused = await migrated(connections).catch((error: unknown) => error as Error);
    assert.match(String((refused as Error).message), /version 99, and this one knows \d+/);
    assert.is((refused as { code?: string }).code, 'store_foreign');
    assert.equal(await connections.read(`select value from svc_meta where name = 'schema'`), [
      { value: '99' },
    ]);
  }),
);

on('a transaction that fails changes nothing, and the next one works', () =>
  connected(async (connections) => {
    await migrated(connections);
    const failed = connections.transaction(async (client) => {
      await client.query('update svc_log set last_seq = 7');
      await client.query('select no_such_column from svc_log');
    });
    assert.is(await codeOf(failed), 'store_failed');
    assert.equal(await connections.read('select last_seq from svc_log'), [{ last_seq: 0 }]);
    await migrated(connections);
  }),
);

on('a read waits for a database that is away, within its bound, and then goes on', () =>
  connected(
    async (connections, postgres) => {
      await connections.read('select 1');
      await postgres.stop('kill');
      // A process of the database may answer once more before it hears of the crash.
      let error: Error | null = null;
      while (error === null)
        error = await connections.read('select 1').then(
          () => null,
          (thrown: Error) => thrown,
        );
      assert.is((error as { code?: string }).code, 'store_stalled');
      assert.match(error.message, /^The database .*\/d\d+ does not answer: /);
      await postgres.start();
      assert.equal(await connections.read('select 1 as a'), [{ a: 1 }]);
    },
    { store_wait_ms: 200, store_retry_ms: 20 },
  ),
);

on('a read that began while the database was away is answered when it is back', () =>
  connected(
    async (connections, postgres) => {
      await postgres.stop('fast');
      const asked = connections.read('select 2 as a');
      await postgres.start();
      assert.equal(await asked, [{ a: 2 }]);
    },
    { store_wait_ms: 60_000, store_retry_ms: 20 },
  ),
);

on('reads share as many connections as the limit says', () =>
  connected(
    async (connections) => {
      const read = () => connections.read('select pg_backend_pid() as pid, pg_sleep(0.01)');
      const pids = await Promise.all(Array.from({ length: 8 }, read));
      assert.is(new Set(pids.map(([row]) => (row as { pid: number }).pid)).size, 2);
    },
    { store_connections: 2 },
  ),
);

on('a statement without end is ended by the database', () =>
  connected(
    async (connections) => {
      const error = await connections
        .read('select pg_sleep(600)')
        .catch((thrown: unknown) => thrown as Error);
      assert.is((error as { code?: string }).code, 'store_stalled');
      assert.equal(await connections.read('select 1 as a'), [{ a: 1 }]);
    },
    { store_answer_ms: 300, store_wait_ms: 10 },
  ),
);

on(
  'a wrong user or database is refused at once, with its name and without a password',
  async () => {
    assert.ok(server);
    const connections = await Connections.create({
      address: `postgres:///none?host=${server.folder}&user=svc`,
      password: 'hunter2',
      limits: defaultLimits,
    });
    const error = (await connections.read('select 1').catch((thrown: unknown) => thrown)) as Error;
    await connections.end();
    assert.is((error as { code?: string }).code, 'store_failed');
    assert.match(error.message, /database "none" does not exist/);
    assert.not.match(`${error.message} ${error.stack} ${JSON.stringify(error)}`, /hunter2/);
  },
);

async function sameAddress({ name }: Connections): Promise<string> {
  assert.ok(server);
  return `postgres:///${name.split('/').at(-1)}?host=${server.folder}&user=svc`;
}

on('a connection that is cut between two statements fails its transaction, not the process', () =>
  connected(async (connections) => {
    await migrated(connections);
    const cut = connections.transaction(async (client) => {
      const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
      const ended = new Promise((resolve) => client.once('end', resolve));
      await connections.read('select pg_terminate_backend($1)', [rows[0]?.pid]);
      await ended;
      await client.query('update svc_log set last_seq = 7');
    });
    assert.is(await codeOf(cut), 'store_stalled');
    assert.equal(await connections.read('select last_seq from svc_log'), [{ last_seq: 0 }]);
  }),
);

on('no setting is in the first message, which a pooler would refuse', () =>
  connected(
    async (connections) => {
      const { config } = connections as unknown as { config: ClientConfig };
      assert.not.match(String(config.connectionString), /options/);
      const asked = `select current_setting('statement_timeout') as bound`;
      const client = await connections.connect();
      const { rows } = await client.query(asked);
      await client.end();
      assert.equal([rows, await connections.read(asked)], [[{ bound: '7s' }], [{ bound: '7s' }]]);
    },
    { store_answer_ms: 7000 },
  ),
);

on('a node that stops between two statements keeps its locks for a bounded time', () =>
  connected(
    async (connections) => {
      await migrated(connections);
      const [locked, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const stopped = connections.transaction(async (client) => {
        await client.query('update svc_log set last_seq = 7');
        locked.resolve();
        await goOn.promise;
      });
      await locked.promise;
      await connections.read('update svc_log set last_seq = 9');
      goOn.resolve();
      assert.is(await codeOf(stopped), 'store_stalled');
      assert.equal(await connections.read('select last_seq from svc_log'), [{ last_seq: 9 }]);
    },
    { store_idle_ms: 50, store_answer_ms: 300_000 },
  ),
);

on('a connection that is cut before the first statement ends no process', () =>
  connected(async (connections) => {
    const { reads } = connections as unknown as { reads: Pool };
    reads.once('acquire', (client) =>
      process.nextTick(() => client.emit('error', new Error('Connection terminated'))),
    );
    const rows = await connections.transaction((client) => client.query('select 1 as a'));
    assert.equal(rows.rows, [{ a: 1 }]);
  }),
);

on('a connection beside the pools that the server ends is no error of the process', () =>
  connected(async (connections) => {
    const client = await connections.connect();
    const ended = new Promise<void>((resolve) => client.once('end', resolve));
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
    await connections.read('select pg_terminate_backend($1)', [rows[0]?.pid]);
    await ended;
  }),
);

test.run();
