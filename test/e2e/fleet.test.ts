import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits } from '../../src/limits.ts';
import { type RuntimeClient, runtimeClient } from '../grpc/runtime-client.ts';
import { runtimeOf } from '../helpers/daemon.ts';
import { RealFleet, SHORT } from '../helpers/fleet.ts';
import { PausedServer } from '../helpers/paused-server.ts';
import { postgresPrograms } from '../helpers/postgres.ts';
import type { Home } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { ask, stream } from '../torture/http.ts';

/** Two daemons of the built program on one real PostgreSQL. The tests of a suite share them. */
const steady = suite('two daemons on one log');
/** On a busy machine a short lease is lost. Only tests that wait for that have it. */
const short = suite('two daemons whose lease ends soon');
const on = postgresPrograms === null ? steady.skip : steady;
const onShort = postgresPrograms === null ? short.skip : short;
let server: PausedServer;
let fleet: RealFleet;

for (const [test, lease_ms] of [
  [steady, defaultLimits.lease_ms],
  // A stopped node loses it soon. The other node is not stopped so long.
  [short, 4000],
] as const) {
  test.before(async () => {
    if (postgresPrograms === null) return;
    server = new PausedServer();
    const base_url = await server.listen();
    const limits = { ...SHORT, lease_ms };
    fleet = await RealFleet.start({ nodes: 2, base_url, max_runs: 1, limits });
  });
  test.after(async () => {
    if (postgresPrograms === null) return;
    await fleet.close();
    await server.close();
  });
}

// biome-ignore lint/suspicious/noExplicitAny: it is compared, never trusted.
type Json = any;

const start = async (node: number, body: object): Promise<Json> => {
  const { status, json, text } = await ask(fleet.home(node), '/v1/runs', { method: 'POST', body });
  assert.is(status, 202, text);
  return json;
};
const get = async (node: number, id: string): Promise<Json> =>
  (await ask(fleet.home(node), `/v1/runs/${id}`)).json;
const until = (node: number, id: string, state: string): Promise<Json> =>
  waitFor(`${id} is ${state} at node ${node}`, async () => {
    const run = await get(node, id);
    return run.state === state && run;
  });
/** The boots that wrote each event of a run, in order. */
const writers = (id: string) =>
  fleet.read<{ seq: number; type: string; boot_id: string }>(
    'select seq::integer, type, boot_id from svc_events where stream = $1 order by version',
    [id],
  );
/** The node that answers a run. */
const nodeOf = async (id: string): Promise<number> => {
  const started = (await writers(id)).findLast(({ type }) => type === 'run.started');
  return started?.boot_id === (await fleet.bootOf(0)) ? 0 : 1;
};
const streams = (count: number) =>
  waitFor(`${count} answers in progress`, () => server.streams.size === count);

on('a run accepted by one daemon is answered by the other, and both show it', async () => {
  const [a, b] = [await fleet.bootOf(0), await fleet.bootOf(1)];
  const first = await start(0, { prompt: 'first' });
  const second = await start(0, { prompt: 'second' });
  await streams(2);
  server.say('hello');
  await until(1, first.id, 'streaming');
  await until(0, second.id, 'streaming');
  const { json: list } = await ask(fleet.home(1), '/v1/runs');
  assert.equal(
    list.runs.map(({ id }: Json) => id),
    [second.id, first.id],
  );
  // Either may be the one that waited for a free place.
  const [moved, kept] = (await nodeOf(first.id)) === 1 ? [first, second] : [second, first];
  const events = await stream(fleet.home(0), `/v1/runs/${moved.id}/events`);
  server.finish();
  const seen: number[] = [];
  for await (const { id, data } of events.events) if (id !== null) seen.push(data.version);
  assert.equal(
    seen,
    seen.map((_, index) => index + 1),
  );
  const shown = await until(0, moved.id, 'completed');
  assert.is(shown.output, 'hello');
  const log = await writers(moved.id);
  assert.is(log[0]?.boot_id, a);
  for (const { boot_id } of log.slice(1)) assert.is(boot_id, b);
  await until(1, kept.id, 'completed');
});

on('a cancel through one daemon ends a run of the other, and one key gives one run', async () => {
  const key = { prompt: 'first', idempotency_key: 'k' };
  const both = await Promise.all([start(0, key), start(1, key)]);
  assert.is(both[0].id, both[1].id);
  await streams(1);
  const [{ boot_id: owner } = { boot_id: '' }] = await writers(both[0].id);
  const other = owner === (await fleet.bootOf(0)) ? 1 : 0;
  const { json } = await ask(fleet.home(other), `/v1/runs/${both[0].id}/cancel`, {
    method: 'POST',
  });
  assert.is(json.state, 'cancelled');
  await streams(0);
});

on('a node that is asked to drain finishes its run, leaves, and is listed as left', async () => {
  const run = await start(0, { prompt: 'first' });
  await streams(1);
  const leaving = await nodeOf(run.id);
  const home = fleet.home(1 - leaving);
  const list = async (): Promise<Json> => {
    const { code, stdout } = await home.svc(['nodes', '--json']);
    assert.is(code, 0);
    return JSON.parse(stdout).nodes;
  };
  const [{ node_id: id = '' } = {}] = await fleet.read<{ node_id: string }>(
    'select node_id from svc_runs where run_id = $1',
    [run.id],
  );
  const states = async () => (await list()).map(({ id, state }: Json) => [id, state]);
  const before = await states();
  assert.equal(
    before.map(([, state]: Json) => state),
    ['active', 'active'],
  );
  const offered = await home.svc(['completion', '--list', 'nodes']);
  assert.equal(
    offered.stdout.trim().split('\n'),
    before.map(([node]: Json) => node),
  );
  const exited = once(fleet.life(leaving).child, 'exit');
  const client = await grpcOf(home);
  const { nodes } = await client.ask('Nodes');
  assert.equal(
    nodes.map(({ id, state, lease_until }: Json) => [id, state, Date.parse(lease_until) > 0]),
    before.map(([node]: Json) => [node, 'active', true]),
  );
  assert.is((await home.svc(['nodes', 'drain', id])).code, 0);
  const drained = await client.ask('DrainNode', { id });
  assert.equal([drained.id, drained.state], [id, 'draining']);
  client.close();
  await waitFor('it stops', async () => {
    const status = await fleet.life(leaving).ask((client) => client.call('status'));
    return status.state === 'stopping';
  });
  server.say('whole');
  server.finish();
  assert.is((await exited)[0], 0);
  assert.equal(
    await states(),
    before.map(([node, state]: Json) => [node, node === id ? 'left' : state]),
  );
  assert.is((await get(1 - leaving, run.id)).output, 'whole');
  assert.is((await home.svc(['nodes', 'drain', id])).code, 7);
});

// The next three go on with the daemons of the one before. The last one ends a daemon.
onShort('a daemon that was stopped beyond its lease writes nothing more of its runs', async () => {
  const run = await start(0, { prompt: 'first', recovery: 'restart' });
  await streams(1);
  server.say('one');
  await until(1, run.id, 'streaming');
  const stopped = await nodeOf(run.id);
  const boot = await fleet.bootOf(stopped);
  fleet.life(stopped).child.kill('SIGSTOP');
  await waitFor('the other daemon has started the run again', async () =>
    (await writers(run.id)).some(({ boot_id }) => boot_id !== boot),
  );
  await streams(2);
  const [{ last = 0 } = {}] = await fleet.read<{ last: number }>(
    'select last_seq::integer as last from svc_log',
  );
  // What it still receives for its old attempt must not reach the log.
  server.say('late');
  fleet.life(stopped).child.kill('SIGCONT');
  // It listens nowhere for a moment.
  await waitFor(
    'it begins again as another boot',
    async () => (await fleet.bootOf(stopped).catch(() => boot)) !== boot,
  );
  server.finish();
  const shown = await until(1 - stopped, run.id, 'completed');
  assert.is(shown.output, 'late');
  const late = await fleet.read(
    'select seq, stream, type from svc_events where boot_id = $1 and seq > $2',
    [boot, last],
  );
  assert.equal(late, []);
  await waitFor(
    'it is ready',
    async () => (await ask(fleet.home(stopped), '/readyz').catch(() => null))?.status === 200,
  );
});

onShort('the runs of a killed daemon go on, and its streams resume, on the other', async () => {
  const run = await start(0, { prompt: 'first', recovery: 'restart' });
  const ends = await start(1, { prompt: 'second', recovery: 'restart' });
  await streams(2);
  server.say('one');
  await until(1, run.id, 'streaming');
  // A node that has just joined may leave its newcomer to the other one.
  const killed = await nodeOf(run.id);
  const alive = 1 - killed;
  const before = await stream(fleet.home(killed), `/v1/runs/${run.id}/events`);
  let last = 0;
  const versions: number[] = [];
  for await (const { id, event, data } of before.events) {
    if (id === null) continue;
    last = id;
    versions.push(data.version);
    if (event === 'run.output_appended') break;
  }
  before.leave();
  await fleet.kill(killed);
  /** As a client resumes after each cut, until the run has ended. */
  const resumed = waitFor('its stream ends', async () => {
    const headers = { 'last-event-id': String(last) };
    const after = await stream(fleet.home(alive), `/v1/runs/${run.id}/events`, { headers }).catch(
      () => null,
    );
    let ended = false;
    for await (const { id, event, data } of after?.events ?? []) {
      if (id === null) continue;
      last = id;
      versions.push(data.version);
      ended = event === 'run.completed';
    }
    return ended;
  });
  // Who loses a short lease asks again. So each answer ends, until the run has.
  const answered = (id: string): Promise<Json> =>
    waitFor(`${id} is completed`, async () => {
      server.say('two');
      server.finish();
      const shown = await get(alive, id).catch(() => null);
      return shown?.state === 'completed' && shown;
    });
  await answered(ends.id);
  const shown = await answered(run.id);
  assert.is(shown.output, 'two');
  await resumed;
  assert.equal(
    versions,
    versions.map((_, index) => index + 1),
    'each event once, in order',
  );
  await fleet.boot(killed);
  assert.is((await get(killed, run.id)).output, 'two');
});

onShort('a node that stops, or lost its lease, asks its clients to try again', async () => {
  const asked = ['/v1/runs', '/v1/responses', '/v1/chat/completions', '/v1/nodes'] as const;
  const problems: string[] = [];
  let isOver = false;
  const body = { input: 'x', messages: [{ role: 'user', content: 'x' }], model: 'm' };
  const client = async (path: string, turn: number) => {
    const home = fleet.home(0);
    const how =
      path === '/v1/runs'
        ? { method: 'POST', body: { prompt: 'x' } }
        : path === '/v1/nodes'
          ? {}
          : { method: 'POST', body };
    while (!isOver) {
      const left = AbortSignal.timeout(3000);
      const gone = new Promise<null>((resolve) =>
        left.addEventListener('abort', () => resolve(null)),
      );
      const answer = await Promise.race([ask(home, path, how).catch(() => null), gone]);
      if (answer?.status === 500) problems.push(`${turn} ${path} ${answer.text}`);
      await sleep(BETWEEN_MS);
    }
  };
  const boot = await fleet.bootOf(0);
  const clients = asked.map(client);
  fleet.life(0).child.kill('SIGSTOP');
  await waitFor('it has lost its lease', async () => {
    const rows = await fleet.read<{ gone: string | null }>(
      `select gone from svc_nodes where boot_id = '${boot}'`,
    );
    return rows[0]?.gone === 'lost';
  });
  fleet.life(0).child.kill('SIGCONT');
  await waitFor(
    'it has joined again',
    async () => (await fleet.bootOf(0).catch(() => boot)) !== boot,
  );
  await waitFor(
    'it is ready',
    async () => (await ask(fleet.home(0), '/readyz').catch(() => null))?.status === 200,
  );
  const exited = once(fleet.life(0).child, 'exit');
  await fleet
    .life(0)
    .ask((control) => control.call('lifecycle', { type: 'stop_requested', timeout_ms: 500 }));
  await exited;
  isOver = true;
  await Promise.all(clients);
  assert.equal(problems, []);
});

/** Between two requests of a client: four without a pause take a whole processor. */
const BETWEEN_MS = 10;

async function grpcOf(home: Home): Promise<RuntimeClient> {
  const { grpc } = (await runtimeOf(home)).addresses;
  assert.ok(grpc);
  return runtimeClient(grpc, { token: (await home.svc(['token'])).stdout.trim() });
}

steady.run();
short.run();
