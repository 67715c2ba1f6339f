import { test } from 'uvu';
import { createPostgresStore } from '../../../src/fleet/postgres/postgres.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { type Postgres, postgresPrograms, startPostgres } from '../../helpers/postgres.ts';
import { fleetConformance } from '../../kernel/store/fleet-conformance.ts';
import { databaseOf, makePlace } from './subject.ts';

let server: Postgres | null = null;
let database = '';

test.before(async () => {
  if (postgresPrograms === null) return;
  server = await startPostgres();
  database = await databaseOf(server);
});
test.after(() => server?.end());

/** To let time pass is to move every time that the database has kept. */
const PASS = [
  `update svc_nodes set until = until - $1::interval, since = since - $1::interval,
     late_at = late_at - $1::interval`,
  'update svc_runs set file_until = file_until - $1::interval',
  'update svc_boots set seen_at = seen_at - $1::interval',
];

if (postgresPrograms === null) test.skip('a fleet in PostgreSQL: it is not installed here');
else
  fleetConformance(test, async () => {
    const { address, ask, remove } = makePlace(database);
    const schema = new URL(address).searchParams.get('options')?.split('=').at(-1);
    await ask(`create schema ${schema}`);
    return {
      store: () => createPostgresStore({ address, password: null, limits: defaultLimits }),
      pass: async (ms) => {
        for (const statement of PASS) await ask(statement, [`${ms} milliseconds`]);
      },
      remove,
    };
  });

test.run();
