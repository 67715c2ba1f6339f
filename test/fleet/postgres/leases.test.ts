import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Connections } from '../../../src/fleet/postgres/connections.ts';
import { Leases } from '../../../src/fleet/postgres/leases.ts';
import { migrate } from '../../../src/fleet/postgres/schema.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { type Postgres, postgresPrograms, startPostgres } from '../../helpers/postgres.ts';
import { facts, LEASE_MS, LOAD } from '../../kernel/store/fleet-nodes.ts';
import { codeOf } from '../../kernel/store/samples.ts';

/** What a fleet in memory cannot show of the leases in a database. */

const on = postgresPrograms === null ? test.skip : test;
let server: Postgres | null = null;

test.before(async () => {
  if (postgresPrograms !== null) server = await startPostgres();
});
test.after(() => server?.end());

class Place {
  readonly address: string;
  private readonly opened: Connections[] = [];

  constructor(address: string) {
    this.address = address;
  }

  async leases(): Promise<Leases> {
    const connections = await Connections.create({
      address: this.address,
      password: null,
      limits: defaultLimits,
    });
    this.opened.push(connections);
    await connections.transaction((client) => migrate(client, connections.name, 'log'));
    return new Leases(connections, LEASE_MS);
  }

  /** A client beside the daemons. */
  async client(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: this.address });
    await client.connect();
    return client;
  }

  /** Lets so much time pass for all leases. */
  async pass(ms: number): Promise<void> {
    const client = await this.client();
    await client.query(
      `update svc_nodes set until = until - $1::float8 * interval '1 millisecond'`,
      [ms],
    );
    await client.end();
  }

  async close(): Promise<void> {
    for (const connections of this.opened) await connections.end();
  }
}

function placed(work: (place: Place) => Promise<void>): () => Promise<void> {
  return async () => {
    assert.ok(server);
    const place = new Place(await server.database());
    await work(place).finally(() => place.close());
  };
}

const RUN = `insert into svc_runs (run_id, accepted_seq, finished, state, provider, model, client,
  cloud, seq, data, digest, node_id, waits)
  values ($1, $2, false, 'queued', 'local', 'm', 'c', false, $2, '', '', $3, false)`;

on(
  'a join whose answer was lost is made again by the same boot',
  placed(async (place) => {
    const [first, second] = [await place.leases(), await place.leases()];
    await first.join(facts('a', { boot_id: 'boot_0' }), null);
    const lost = await first.join(facts('a', { boot_id: 'boot_1' }), 'boot_0');
    assert.is(lost.previous_boot_id, 'boot_0');
    const again = await second.join(facts('a', { boot_id: 'boot_1' }), null);
    assert.ok(again.epoch > lost.epoch);
    assert.is(again.previous_boot_id, null);
    assert.is(await first.renew(LOAD), 'lost');
    assert.is(await second.renew(LOAD), 'held');
  }),
);

on(
  'a node whose commit is in progress is not taken over, and none of its runs is left behind',
  placed(async (place) => {
    const [a, b] = [await place.leases(), await place.leases()];
    await a.join(facts('a'), null);
    await b.join(facts('b'), null);
    await place.pass(LEASE_MS);
    const client = await place.client();
    await client.query(
      `update svc_nodes set until = clock_timestamp() + interval '1 hour' where node_id = 'b'`,
    );
    await client.end();
    const appending = await place.client();
    await appending.query('begin');
    // What each append does first.
    await appending.query(`select from svc_nodes where node_id = 'a' for share`);
    await appending.query(RUN, ['run_1', 1, 'a']);
    assert.equal(await b.takeOver(), []);
    await appending.query('commit');
    await appending.end();
    assert.equal(
      (await b.takeOver()).map(({ node_id, runs }) => [node_id, runs]),
      [['a', 1]],
    );
  }),
);

on(
  'two boots that join with one name follow each other, and the first one is fenced',
  placed(async (place) => {
    const all = await Promise.all([place.leases(), place.leases(), place.leases()]);
    const joined = await Promise.all(
      all.map((leases, n) => codeOf(leases.join(facts('a', { boot_id: `boot_${n}` }), null))),
    );
    assert.equal(joined.filter((code) => code === null).length, 1);
    assert.equal(joined.filter((code) => code === 'daemon_already_running').length, 2);
  }),
);

test.run();
