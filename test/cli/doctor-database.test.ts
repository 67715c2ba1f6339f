import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Check } from '../../src/cli/upkeep/doctor/check.ts';
import { checkDatabase } from '../../src/cli/upkeep/doctor/database-check.ts';
import { loadConfig } from '../../src/config/config.ts';
import { createPostgresStore } from '../../src/fleet/postgres/postgres.ts';
import { SCHEMA } from '../../src/fleet/postgres/schema.ts';
import { defaultLimits } from '../../src/limits.ts';
import { makePair } from '../helpers/certificate.ts';
import { type Postgres, postgresPrograms, startPostgres } from '../helpers/postgres.ts';

const PASSWORD = 'geheim-81';
const on = postgresPrograms === null ? test.skip : test;
const pair = makePair({ names: ['localhost'], addresses: [] });
let server: Postgres;
/** A database with the tables, one without, and the address of the first one by its port. */
let [full, empty, byPort] = ['', '', ''];

test.before(async () => {
  if (postgresPrograms === null) return;
  server = await startPostgres({ tls: pair });
  full = await server.database();
  empty = await server.database();
  byPort = server.byPort(full);
  await ask(empty, `create role locked login password '${PASSWORD}'; create role guest login`);
  const store = createPostgresStore({ address: full, password: null, limits: defaultLimits });
  await store.open();
  await store.close();
});
test.after(() => server?.end());

/** Several statements, as the owner. */
async function ask(address: string, statements: string): Promise<void> {
  const client = new pg.Client({ connectionString: address });
  await client.connect();
  await client.query(statements).finally(() => client.end());
}

/** What the doctor says of a database, one line for each check. It never has a password. */
async function says(address: string, password?: string): Promise<string[]> {
  const at = password === undefined ? address : `${address}&password=${password}`;
  const config = loadConfig('/nowhere/config.json', { env: { SVC_STORE: at } });
  Object.assign(config.limits, { store_wait_ms: 10, store_retry_ms: 10 });
  const checks: Check[] = await checkDatabase(config);
  const lines = checks.map(({ status, detail, hint }) => [status, detail, hint].join(' | '));
  assert.not.match(lines.join(), /geheim|wrong-7/);
  return lines;
}

async function matches(address: string, ...expected: RegExp[]): Promise<void> {
  const lines = await says(address);
  assert.is(lines.length, expected.length, lines.join('\n'));
  for (const [index, one] of expected.entries()) assert.match(lines[index] ?? '', one);
}

on('a database that is fine has one line', async () => {
  await matches(full, /^ok \| .*\/d1, PostgreSQL \d+.*, tables of version \d+, not encrypted/);
  await matches(empty, /^ok \| .*\/d2, .*, no tables yet/);
});

on('a refused connection says what to do', async () => {
  const locked = empty.replace('user=svc', 'user=locked');
  assert.match((await says(locked, PASSWORD))[0] ?? '', /lacks rights/);
  assert.match(
    (await says(locked, 'wrong-7'))[0] ?? '',
    /^fail \| .* refused: password authentication failed .*\| .*PGPASSWORD or store_password_file/,
  );
  await matches(
    full.replace('/d1', '/none'),
    /^fail \| .*database "none" does not exist.*\| Create the database/,
  );
  await matches(
    full.replace(server.folder, `${server.folder}/away`),
    /^fail \| The database .*\/away.*\/d1 does not answer: .*ENOENT.*\| See|^fail .* \| Check/,
  );
});

on('rights that the user lacks are named', async () => {
  await matches(
    full.replace('user=svc', 'user=guest'),
    /^fail \| .* lacks rights in .*: delete on svc_asks, .*, and \d+ more\. \| Let this user own/,
  );
  await matches(
    empty.replace('user=svc', 'user=guest'),
    /^fail \| .* lacks rights in .*: create in the schema public\./,
  );
});

on('tables of a newer version are named with both versions', async () => {
  const set = (version: number) =>
    ask(full, `update svc_meta set value = '${version}' where name = 'schema'`);
  await set(99);
  await matches(full, /^fail \| A newer svc made .* version 99, .* knows \d+\. \| Install that/);
  await set(SCHEMA);
});

on('commits that may be lost fail the check', () =>
  matches(
    `${full}&options=-c%20synchronous_commit%3Doff`,
    /^ok/,
    /^fail \| synchronous_commit is off: .* \| Set it on: alter database/,
  ),
);

on('a clock that is far off, and a replica that is behind, are warnings', async () => {
  // The view of the replicas, as a server with one would have it.
  await ask(
    full,
    `create schema replicas; create view replicas.pg_stat_replication as
       select interval '61 seconds' as replay_lag union select interval '2 seconds'`,
  );
  const { now } = Date;
  Date.now = () => now() + 60_000;
  try {
    await matches(
      `${full}&options=-c%20search_path%3Dreplicas,public,pg_catalog`,
      /^ok/,
      /^warn \| Its clock and that of this machine differ by \d\d s, so this node takes no runs\. \| Let both follow/,
      /^warn \| A replica is 61 s behind: .* \| Look at the replica/,
    );
  } finally {
    Date.now = now;
  }
});

on('a standby is no place for commits', async () => {
  await ask(
    full,
    `create schema standby; create function standby.pg_is_in_recovery() returns boolean
       language sql as 'select true'`,
  );
  const address = `${full}&options=-c%20search_path%3Dstandby,public,pg_catalog`;
  await matches(address, /^fail \| .*\/d1 is a standby: .* \| Name the primary/);
});

on('TLS checks what its mode says, as psql does', async () => {
  const file = (name: string, { cert }: { cert: string }) => {
    const path = join(process.env.TMPDIR ?? '/tmp', name);
    writeFileSync(path, cert);
    return path;
  };
  const [ca, other] = [file('ca.pem', pair), file('other.pem', makePair())];
  const here = byPort.replace('localhost', '127.0.0.1');
  const encrypted = /^ok \| localhost:\d+\/d1, .*, encrypted/;
  await matches(byPort, /not encrypted/);
  await matches(`${byPort}?sslmode=require`, encrypted);
  await matches(`${byPort}?sslmode=verify-full&sslrootcert=${ca}`, encrypted);
  await matches(`${byPort}?sslrootcert=${ca}`, encrypted);
  await matches(`${here}?sslmode=verify-ca&sslrootcert=${ca}`, /^ok .*, encrypted/);
  await matches(
    `${here}?sslmode=verify-full&sslrootcert=${ca}`,
    /^fail \| The certificate of the database 127.* is for another host\. \| Name in store the host/,
  );
  const unknown = /^fail \| The certificate .* by no known authority, .*\| .*sslrootcert=/;
  await matches(`${byPort}?sslmode=verify-full`, unknown);
  await matches(`${byPort}?sslmode=verify-full&sslrootcert=${other}`, unknown);
  await matches(`${byPort}?sslmode=require&sslrootcert=${other}`, unknown);
});

on('a mode of TLS that svc does not have is refused', async () => {
  await matches(`${byPort}?sslmode=prefer`, /^fail \| sslmode=prefer is not for svc\. It may/);
  await matches(`${byPort}?sslmode=verify-ca`, /^fail \| .* needs the file of the authority/);
  await matches(`${byPort}?ssl=true`, /^fail \| store has ssl, which is not for svc\./);
  await matches(
    `${byPort}?sslmode=verify-full&sslrootcert=/none.pem`,
    /^fail \| sslrootcert of store, \/none\.pem, cannot be read \(ENOENT\)\. \| Correct store/,
  );
});

test.run();
