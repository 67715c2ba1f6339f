import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { openStoredLog } from '../../../src/fleet/postgres/alone.ts';
import { LATER } from '../../../src/kernel/store/usage.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { failure } from '../../helpers/failure.ts';
import { type Postgres, postgresPrograms, startPostgres } from '../../helpers/postgres.ts';
import { waitFor } from '../../helpers/wait.ts';
import { codeOf } from '../../kernel/store/samples.ts';
import { databaseOf, makePlace } from './subject.ts';

const on = postgresPrograms === null ? test.skip : test;
let server: Postgres | null = null;

test.before(async () => {
  if (postgresPrograms !== null) server = await startPostgres();
});
test.after(() => server?.end());

on('a log whose first read fails leaves no connection open', async () => {
  const { address, ask, store } = makePlace(await databaseOf(server));
  const writer = store();
  await writer.open();
  await writer.close();
  await ask('alter table svc_log rename to another');
  // Otherwise the database itself ends a connection in a transaction that failed.
  const limits = { ...defaultLimits, store_idle_ms: 600_000 };
  const options = { address, password: null, limits };
  assert.is(await codeOf(openStoredLog(options)), 'store_failed');
  await waitFor(
    'no other connection is open',
    async () => {
      const others = await ask(`
        select from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`);
      return others.length === 0;
    },
    { within_ms: 10_000 },
  );
});

on(
  'usage in tables of an older svc is refused with the way on, which a daemon then goes',
  async () => {
    const { address, ask, store } = makePlace(await databaseOf(server));
    const daemon = async () => {
      const writer = store();
      await writer.open();
      await writer.close();
    };
    const usage = async () => {
      const log = await openStoredLog({ address, password: null, limits: defaultLimits });
      try {
        return await log?.usage({ from_hour: 0, key: null });
      } finally {
        await log?.close();
      }
    };
    await daemon();
    for (const table of ['svc_usage', 'svc_embedding_usage'])
      for (const column of LATER) await ask(`alter table ${table} drop column if exists ${column}`);
    const { code, message, hint } = await failure(usage());
    assert.is(code, 'store_failed');
    assert.match(message, /^The database .* refused: column "\w+" does not exist \(42703\)\.$/);
    assert.is(
      hint,
      'An older svc made these tables. A daemon of this one adds what they lack: svc start. Then ' +
        'run the command again.',
    );
    await daemon();
    assert.equal(await usage(), { since_hour: null, sums: [] });
  },
);

test.run();
