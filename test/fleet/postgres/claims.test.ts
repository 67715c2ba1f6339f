import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import type { FleetChange } from '../../../src/fleet/port.ts';
import { createClaims } from '../../../src/fleet/postgres/claims.ts';
import { Connections } from '../../../src/fleet/postgres/connections.ts';
import { Notices } from '../../../src/fleet/postgres/postgres.ts';
import { migrate } from '../../../src/fleet/postgres/schema.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { type Postgres, postgresPrograms, startPostgres } from '../../helpers/postgres.ts';
import { waitFor } from '../../helpers/wait.ts';
import { LOOK, NONE } from '../../kernel/store/fleet-nodes.ts';
import { codeOf } from '../../kernel/store/samples.ts';

const on = postgresPrograms === null ? test.skip : test;
let server: Postgres | null = null;

test.before(async () => {
  if (postgresPrograms !== null) server = await startPostgres();
});
test.after(() => server?.end());

interface Node {
  connections: Connections;
  claims: ReturnType<typeof createClaims>;
  /** How often its late lease was renewed. */
  extended: number;
}

/** Nodes that have their lease, on tables without a log. */
async function withNodes(
  names: readonly string[],
  work: (nodes: Node[]) => Promise<void>,
): Promise<void> {
  assert.ok(server);
  const address = await server.database();
  const nodes: Node[] = [];
  for (const node_id of names) {
    const connections = await Connections.create({
      address,
      password: null,
      limits: defaultLimits,
    });
    await connections.transaction((client) => migrate(client, connections.name, 'log'));
    await connections.read(
      `insert into svc_nodes values ($1, 1, clock_timestamp() + interval '1 hour', now(), null, null,
         '1', 'here', 'boot_' || $1, 4, 0, false, '{}')`,
      [node_id],
    );
    const node: Node = {
      connections,
      extended: 0,
      claims: createClaims(connections, {
        current: () => ({ node_id, epoch: 1 }),
        extend: async () => {
          node.extended += 1;
          const rows = await connections.read(
            `update svc_nodes set until = clock_timestamp() + interval '1 hour'
             where node_id = $1 and epoch = 1 returning node_id`,
            [node_id],
          );
          if (rows.length === 0) throw new SvcError('lease_lost');
        },
      }),
    };
    nodes.push(node);
  }
  try {
    await work(nodes);
  } finally {
    for (const { connections } of nodes) await connections.end();
  }
}

let seq = 0;
async function queue(
  { connections }: Node,
  run_id: string,
  { client = 'one', node_id = null as string | null, state = 'queued', model = 'm' } = {},
): Promise<void> {
  seq += 1;
  await connections.read(
    `insert into svc_runs (run_id, accepted_seq, finished, state, provider, model, client, cloud,
       seq, data, digest, node_id, waits)
     values ($1, $2, $3 = 'completed', $3, 'local', $4, $5, false, $2, '', '', $6, $3 = 'queued')`,
    [run_id, seq, state, model, client, node_id],
  );
}

const ANY = { providers: ['local'], models: [], files: [], limit: 100 };
const ids = (runs: readonly { run_id: string }[]) => runs.map(({ run_id }) => run_id);

on('nodes that claim at once get each run once, and none is left', () =>
  withNodes(['a', 'b', 'c'], async (nodes) => {
    const [a] = nodes as [Node];
    const names = Array.from({ length: 60 }, (_, index) => `run_${index}`);
    for (const name of names) await queue(a, name);
    const claimed: string[] = [];
    while (claimed.length < names.length) {
      const some = await Promise.all(
        nodes.flatMap(({ claims }) => [
          claims.claim({ ...ANY, limit: 3 }),
          claims.claim({ ...ANY, limit: 3 }),
        ]),
      );
      assert.ok(some.flat().length > 0);
      for (const part of some) assert.ok(part.length <= 3);
      claimed.push(...some.flatMap(ids));
    }
    assert.equal([...claimed].sort(), [...names].sort());
    assert.equal((await a.claims.look(LOOK)).waiting, { runs: 0, due: [], wanted: [], ...NONE });
  }),
);

on('the order is fair across clients, and counts the runs that they have', () =>
  withNodes(['a'], async (nodes) => {
    const [a] = nodes as [Node];
    await queue(a, 'run_0', { client: 'many', node_id: 'b', state: 'streaming' });
    for (const run_id of ['run_1', 'run_2', 'run_3']) await queue(a, run_id, { client: 'many' });
    await queue(a, 'run_4', { client: 'one' });
    await queue(a, 'run_5', { client: 'one' });
    assert.is(await a.claims.position('run_4'), 1);
    assert.is(await a.claims.position('run_0'), null);
    assert.equal(ids(await a.claims.claim(ANY)), ['run_4', 'run_1', 'run_5', 'run_2', 'run_3']);
  }),
);

on('a node claims what it can answer', () =>
  withNodes(['a'], async (nodes) => {
    const [a] = nodes as [Node];
    await queue(a, 'run_1', { model: 'small' });
    await queue(a, 'run_2', { model: 'large' });
    const found = await a.claims.claim({ ...ANY, providers: [], models: ['local/large'] });
    assert.equal(ids(found), ['run_2']);
    assert.equal(await a.claims.claim({ ...ANY, providers: ['cloud'] }), []);
  }),
);

on('a node whose epoch is not the present one changes nothing', () =>
  withNodes(['a', 'b'], async (nodes) => {
    const [a, b] = nodes as [Node, Node];
    await queue(a, 'run_1', { node_id: 'a' });
    await queue(a, 'run_2');
    await b.connections.read(`update svc_nodes set epoch = 2 where node_id = 'a'`);
    for (const late of [
      () => a.claims.release(['run_1']),
      () => a.claims.claim(ANY),
      () => a.claims.claimRun('run_2'),
      () => a.claims.reserveKey('k', 'run_3'),
      () => a.claims.listCancels(),
    ])
      assert.is(await codeOf(late()), 'lease_lost');
    assert.is(await b.claims.ownerOf('run_1'), 'a');
    assert.is(await b.claims.ownerOf('run_2'), null);
    assert.is(await b.claims.reserveKey('k', 'run_4'), 'run_4');
  }),
);

on('a late lease is renewed, and the call goes on', () =>
  withNodes(['a'], async (nodes) => {
    const [a] = nodes as [Node];
    await queue(a, 'run_1');
    await a.connections.read(`update svc_nodes set until = clock_timestamp() - interval '1 s'`);
    assert.equal(ids(await a.claims.claim(ANY)), ['run_1']);
    assert.is(a.extended, 1);
  }),
);

on('a released run waits, and a run that has started stays', () =>
  withNodes(['a', 'b'], async (nodes) => {
    const [a, b] = nodes as [Node, Node];
    await queue(a, 'run_1', { node_id: 'a' });
    await queue(a, 'run_2', { node_id: 'a', state: 'streaming' });
    await queue(a, 'run_3', { node_id: 'b' });
    await a.claims.release(['run_1', 'run_2', 'run_3']);
    assert.equal(await b.claims.claim(ANY), [
      { run_id: 'run_1', waits: true, kept: false, downtime_ms: 0, events: null },
    ]);
  }),
);

on('the downtime of a run that was cut off begins when its boot was last seen', () =>
  withNodes(['a'], async (nodes) => {
    const [a] = nodes as [Node];
    await queue(a, 'run_1', { state: 'streaming' });
    await a.connections.read(
      `insert into svc_events values (1, 'run_1', 1, 't', 1, 0, 'boot_x', '{}', '')`,
    );
    await a.connections.read(
      `insert into svc_boots values ('boot_x', 'x', 1, clock_timestamp() - interval '20 s')`,
    );
    const claimed = await a.claims.claimRun('run_1');
    assert.is(claimed?.waits, false);
    assert.ok((claimed?.downtime_ms ?? 0) >= 20_000);
    assert.is(await a.claims.claimRun('run_1'), null);
  }),
);

on('of several nodes, one reserves a key', () =>
  withNodes(['a', 'b'], async (nodes) => {
    const [a, b] = nodes as [Node, Node];
    const owners = await Promise.all(
      [a, b, a, b].map(({ claims }, index) => claims.reserveKey('k', `run_${index}`)),
    );
    assert.is(new Set(owners).size, 1);
    const [owner = ''] = owners;
    await b.claims.freeKey('k', 'run_other');
    assert.is(await b.claims.reserveKey('k', 'run_9'), owner, 'another run does not free it');
    await b.claims.freeKey('k', owner);
    assert.is(await b.claims.reserveKey('k', 'run_9'), 'run_9');
    await a.connections.read(`update svc_nodes set epoch = 2 where node_id = 'b'`);
    assert.is(await a.claims.reserveKey('k', 'run_10'), 'run_10', 'its node has lost its lease');
  }),
);

on('a cancel is heard by the owner of the run, until the run ends', () =>
  withNodes(['a', 'b'], async (nodes) => {
    const [a, b] = nodes as [Node, Node];
    const heard: FleetChange[] = [];
    const over = new AbortController();
    new Notices(a.connections, 10).onChange((change) => heard.push(change), over.signal);
    await waitFor('the connection for notices', () => heard.length > 0);
    await queue(a, 'run_1', { node_id: 'a', state: 'streaming' });
    await b.claims.ask('run_1', 'http');
    await b.claims.ask('run_1', 'http');
    await waitFor('the notice', () => heard.length > 1);
    assert.equal(heard[1], { last_seq: 0, streams: [], waiting: false, asks: true });
    assert.equal(await a.claims.listCancels(), [{ run_id: 'run_1', by: 'http' }]);
    assert.equal(await b.claims.listCancels(), []);
    await a.connections.read('update svc_runs set finished = true');
    assert.equal(await a.claims.listCancels(), []);
    assert.equal(await a.connections.read('select run_id from svc_asks'), []);
    over.abort();
  }),
);

on('notices are heard again after their connection was cut', () =>
  withNodes(['a'], async (nodes) => {
    const [a] = nodes as [Node];
    const heard: FleetChange[] = [];
    const over = new AbortController();
    new Notices(a.connections, 10).onChange((change) => heard.push(change), over.signal);
    await waitFor('the connection for notices', () => heard.length > 0);
    await a.connections.read(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and query like 'listen %'`,
    );
    await waitFor('the next connection', () => heard.length > 1);
    assert.equal(heard[1], { last_seq: 0, streams: 'all', waiting: true, asks: true });
    over.abort();
  }),
);

test.run();
