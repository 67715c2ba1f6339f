import { execFile } from 'node:child_process';
import { connect, type Socket } from 'node:net';
import { promisify } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { EVENTS_TO } from '../helpers/daemon-paths.ts';
import { waitFor } from '../helpers/wait.ts';
import { ask, boot } from '../transport/http/boot.ts';
import { type HealthClient, healthClient, reflect, type Served, serve } from './boot.ts';

const test = suite<{ grpc: Served; client: HealthClient }>('health over gRPC');

const NOT_FOUND = 5;
const OK = 0;
const UNAVAILABLE = 14;
const RUNTIME = 'svc.runtime.v1.Runtime';
const SERVICES = ['', 'svc.livez', 'svc.readyz', RUNTIME];

test.before.each(async (context) => {
  context.grpc = await serve({ limits: { connection_calls: 1000 } });
  context.client = healthClient(context.grpc.address);
});

test.after.each(async ({ grpc, client }) => {
  client.close();
  await grpc.close();
});

test('in every state gRPC agrees with HTTP', async ({ grpc, client }) => {
  const http = await boot();
  for (const path of Object.keys(EVENTS_TO)) {
    grpc.runtime.bring(path);
    http.runtime.bring(path);
    const serving = async (route: string) =>
      (await ask(http.url + route)).status === 200 ? 'SERVING' : 'NOT_SERVING';
    const [live, ready] = [await serving('/livez'), await serving('/readyz')];
    const expected = { '': ready, 'svc.livez': live, 'svc.readyz': ready, [RUNTIME]: ready };
    assert.equal(await client.list(), expected, path);
    for (const [service, status] of Object.entries(expected))
      assert.is(await client.check(service), status, `${service} in ${path}`);
  }
  await http.close();
});

test('an unknown service is not found, whatever its name', async ({ client }) => {
  for (const name of [
    'svc',
    'svc.runtime.v2.Runtime',
    'constructor',
    '__proto__',
    'x'.repeat(10_000),
    '\0',
  ])
    assert.is(await client.check(name), NOT_FOUND, name.slice(0, 30));
});

test('every service with health is listed by reflection', async ({ grpc, client }) => {
  const listed = await reflect(grpc.address, 'v1');
  const probes = ['', 'svc.livez', 'svc.readyz'];
  for (const name of Object.keys(await client.list()))
    assert.ok(probes.includes(name) || listed.includes(name), name);
});

test('a watcher gets each change of its service once', async ({ grpc, client }) => {
  grpc.runtime.bring('starting.probing');
  const [all, live, unknown] = [
    client.watch(''),
    client.watch('svc.livez'),
    client.watch('svc.none'),
  ];
  await waitFor(
    'the first word',
    () => all.seen.length === 1 && live.seen.length === 1 && unknown.seen.length === 1,
  );
  grpc.runtime.propose({ type: 'daemon.providers_probed' });
  grpc.runtime.propose({ type: 'daemon.run_admitted', run_id: 'run_1' });
  grpc.runtime.propose({ type: 'daemon.run_settled', run_id: 'run_1' });
  grpc.runtime.propose({
    type: 'daemon.stop_requested',
    by: 'test',
    mode: 'drain',
    drain_deadline_at: 2e12,
    close_deadline_at: 2e12,
  });
  grpc.runtime.propose({ type: 'daemon.stopped' });
  await waitFor('the last word', () => live.seen.length === 2 && all.seen.length === 3);
  assert.equal(all.seen, ['NOT_SERVING', 'SERVING', 'NOT_SERVING']);
  assert.equal(live.seen, ['SERVING', 'NOT_SERVING']);
  assert.equal(unknown.seen, ['SERVICE_UNKNOWN']);
  for (const watched of [all, live, unknown]) watched.cancel();
});

test('a watcher gets NOT_SERVING before the server closes, even without a change of the machine', async () => {
  const grpc = await serve();
  const client = healthClient(grpc.address);
  const watched = SERVICES.map((service) => client.watch(service));
  await waitFor('the first word', () => watched.every(({ seen }) => seen.length === 1));
  await grpc.close();
  for (const { seen, ended } of watched) {
    assert.equal(seen, ['SERVING', 'NOT_SERVING']);
    assert.is(await ended, OK);
  }
  assert.is(await client.check(''), UNAVAILABLE);
  client.close();
});

test('a watcher that leaves is forgotten', async ({ grpc, client }) => {
  for (let index = 0; index < 20; index += 1) {
    const watched = client.watch('');
    await waitFor('the first word', () => watched.seen.length === 1);
    watched.cancel();
    await watched.ended;
  }
  let asked = 0;
  const { probe } = grpc.runtime;
  grpc.runtime.probe = () => {
    asked += 1;
    return probe();
  };
  await waitFor('all to be forgotten', () => {
    asked = 0;
    grpc.runtime.bring('ready');
    return asked === 0;
  });
});

test('the first connection loads the library', async () => {
  const program = `
    import { createRequire } from 'node:module';
    import { createGrpc } from ${JSON.stringify(new URL('../../src/grpc/server.ts', import.meta.url).href)};
    const loaded = () => Object.keys(createRequire(import.meta.url).cache).some((file) => file.includes('grpc-js'));
    const grpc = createGrpc({ runtime: {}, limits: { connections: 4, close_grace_ms: 50 }, log: {} });
    await grpc.listen('127.0.0.1', 0);
    await grpc.close();
    console.log(loaded());`;
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--input-type=module',
    '-e',
    program,
  ]);
  assert.is(stdout, 'false\n');
});

test('a message that is too large is refused, and the server continues', async ({ client }) => {
  assert.is(await client.check('x'.repeat(100_000)), 8);
  assert.is(await client.check(''), 'SERVING');
});

test('bytes that are not HTTP/2 are not served, and the server continues', async ({
  grpc,
  client,
}) => {
  const port = Number(grpc.address.split(':')[1]);
  for (const text of [
    'GET / HTTP/1.1\r\nHost: x\r\n\r\n',
    '\0'.repeat(1000),
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\ngarbage garbage',
  ]) {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {});
    socket.resume().end(text);
    await new Promise((resolve) => socket.once('close', resolve));
  }
  assert.is(await client.check(''), 'SERVING');
});

test('a port in use is an error of svc', async ({ grpc }) => {
  const error = await serve({ port: Number(grpc.address.split(':')[1]) }).catch(
    (failure) => failure,
  );
  assert.is(error.code, 'port_in_use');
});

test('closing waits no longer than its bound for a peer that stays', async () => {
  const grpc = await serve({ limits: { close_grace_ms: 50 } });
  const socket = connect(Number(grpc.address.split(':')[1]), '127.0.0.1');
  socket.on('error', () => {});
  socket.resume();
  await new Promise((resolve) => socket.once('connect', resolve));
  const ended = new Promise((resolve) => socket.once('close', resolve));
  await grpc.close();
  await ended;
});

test('clients that use every connection lock out no probe: the oldest is closed', async () => {
  const grpc = await serve({
    limits: { connections: 4, spare_connections: 4, close_grace_ms: 50 },
  });
  const watcher = healthClient(grpc.address);
  const watched = watcher.watch('');
  await waitFor('the first word', () => watched.seen.length === 1);
  const closed: number[] = [];
  const hold = async (nth: number) => {
    const socket = connect(Number(grpc.address.split(':')[1]), '127.0.0.1');
    socket.on('error', () => {});
    socket.once('close', () => closed.push(nth));
    socket.resume();
    await new Promise((resolve) => socket.once('connect', resolve));
    return socket;
  };
  const sockets: Socket[] = [];
  for (let nth = 0; nth < 8; nth += 1) sockets.push(await hold(nth));
  let end: number | null = null;
  void watched.ended.then((code) => {
    end = code;
  });
  await waitFor('the end of the watcher', () => end !== null);
  assert.is(end, UNAVAILABLE);
  const probe = healthClient(grpc.address);
  assert.is(await probe.check(''), 'SERVING');
  await waitFor('the oldest to be closed', () => closed.length > 0);
  assert.equal(closed, [0]);
  for (const client of [probe, watcher]) client.close();
  for (const socket of sockets) socket.destroy();
  await grpc.close();
});

test.run();
