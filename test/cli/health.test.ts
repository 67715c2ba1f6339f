import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Server as TcpServer,
} from 'node:net';
import { Server as GrpcServer, ServerCredentials } from '@grpc/grpc-js';
import { HealthImplementation } from 'grpc-health-check';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { writeRuntimeFile } from '../../src/home/runtime-file.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type FakeDaemon, health, runtimeFile, startFakeDaemon } from './fake-daemon.ts';

const test = suite<{ home: Home; daemon: FakeDaemon; ends: (() => void)[] }>('svc health');

test.before.each(async (context) => {
  context.home = makeHome();
  context.daemon = await startFakeDaemon(context.home);
  context.ends = [];
});
test.after.each(async ({ home, daemon, ends }) => {
  for (const end of ends) end();
  await daemon.close();
  await home.close();
});

const { live: _live, ready: _ready, ...record } = health;
const listenOn = async (home: Home, addresses: object) =>
  writeRuntimeFile(home.paths.runtime, {
    ...runtimeFile,
    addresses: { ...runtimeFile.addresses, ...addresses },
  });
const port = (server: Server | TcpServer) => (server.address() as AddressInfo).port;
const listening = (server: Server | TcpServer) =>
  new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));

async function http(home: Home, ends: (() => void)[], answer: RequestListener): Promise<void> {
  const server = createHttpServer(answer);
  await listening(server);
  ends.push(
    () => server.closeAllConnections(),
    () => server.close(),
  );
  await listenOn(home, { http: `http://127.0.0.1:${port(server)}` });
}

/** What answers with the same bytes whatever it is asked. */
async function tcp(home: Home, ends: (() => void)[], bytes: string): Promise<void> {
  const server = createTcpServer((socket) => {
    ends.push(() => socket.destroy());
    socket.on('error', () => {}).once('data', () => (bytes === '' ? undefined : socket.end(bytes)));
  });
  await listening(server);
  ends.push(() => server.close());
  await listenOn(home, { http: `http://127.0.0.1:${port(server)}` });
}

const daemonAt =
  (ready: boolean, live: boolean, body: object): RequestListener =>
  (request, response) => {
    assert.match(request.headers.host ?? '', /^127\.0\.0\.1:\d+$/);
    response.statusCode = { '/readyz': ready, '/livez': live }[request.url ?? ''] ? 200 : 503;
    response.setHeader('content-type', 'application/health+json').end(JSON.stringify(body));
  };

test('over http: ready is serving, exit 0; live only is not, exit 4', async ({ home, ends }) => {
  await http(home, ends, daemonAt(true, true, record));
  const serving = await home.svc(['health', '--json']);
  assert.is(serving.code, 0);
  assert.equal(JSON.parse(serving.stdout), {
    source: 'http',
    live: true,
    ready: true,
    output: null,
    ...without(record, 'service_id'),
  });
  assert.is((await home.svc(['health'])).stdout, 'serving (ready, live)\n');

  const starting = {
    ...record,
    status: 'fail',
    state: 'starting',
    state_path: 'starting.opening',
    reason: 'Not yet.',
    output: 'Not yet.',
  };
  await http(home, ends, daemonAt(false, true, starting));
  const not = await home.svc(['health', '--source', 'http']);
  assert.equal(
    [not.code, not.stdout, not.stderr],
    [4, 'not serving (starting.opening, live): Not yet.\n', ''],
  );
  const json = await home.svc(['health', '--json']);
  assert.is(json.code, 4);
  assert.is(JSON.parse(json.stdout).reason, 'Not yet.');
});

test('over http: chunks are read, and a warning is still serving', async ({ home, ends }) => {
  await http(home, ends, (_, response) => {
    const text = JSON.stringify({ ...record, status: 'warn', output: 'No provider can be asked.' });
    response.write(text.slice(0, 10));
    response.end(text.slice(10));
  });
  assert.is(
    (await home.svc(['health'])).stdout,
    'serving (ready, live, with a warning): No provider can be asked.\n',
  );
});

test('over http: whatever is no answer of the daemon is unreachable, exit 3', async ({
  home,
  ends,
}) => {
  const head = 'HTTP/1.1 200 OK\r\n';
  for (const bytes of [
    '',
    'SSH-2.0-OpenSSH\r\n',
    `${head}content-length: 2\r\n\r\n{}`,
    `${head}content-length: 500\r\n\r\n{"state_path":"ready","status":"pass"`,
    `${head}transfer-encoding: chunked\r\n\r\n20\r\n{"state_path"`,
    `${head}transfer-encoding: chunked\r\n\r\nzz\r\n`,
    `${head}\r\n<html>`,
    `${head}\r\n${'x'.repeat(5 * 1024 * 1024)}`,
  ]) {
    await tcp(home, ends, bytes);
    const { code, stdout, stderr } = await home.svc(['health', '--json']);
    assert.is(code, 3, bytes.slice(0, 80));
    assert.is(stdout, '');
    assert.is(JSON.parse(stderr).error.code, 'daemon_not_running');
  }
});

test('the address of a dead daemon is not asked: another program may have it by now', async ({
  home,
  ends,
}) => {
  let asked = 0;
  await http(home, ends, (request, response) => {
    asked += 1;
    daemonAt(true, true, record)(request, response);
  });
  const file = {
    ...runtimeFile,
    pid: 2 ** 22 + 1,
    process_start: '0:1',
    addresses: { ...runtimeFile.addresses, http: 'http://127.0.0.1:1' },
  };
  await writeRuntimeFile(home.paths.runtime, file);
  assert.is((await home.svc(['health'])).code, 3);
  assert.is(asked, 0);
});

test('over the socket: the same words from the same record', async ({ home, daemon }) => {
  const serving = await home.svc(['health', '--source', 'socket', '--json']);
  assert.is(serving.code, 0);
  assert.equal(JSON.parse(serving.stdout), {
    source: 'socket',
    live: true,
    ready: true,
    output: null,
    ...without(record, 'service_id'),
  });
  daemon.on('health', ({ result }) =>
    result({
      ...health,
      ready: false,
      live: false,
      status: 'fail',
      state_path: 'stopped',
      output: 'It has stopped.',
    }),
  );
  const not = await home.svc(['health', '--source', 'socket']);
  assert.equal([not.code, not.stdout], [4, 'not serving (stopped, not live): It has stopped.\n']);
});

test('over gRPC: a stock health service is understood', async ({ home, ends }) => {
  const server = new GrpcServer();
  const service = new HealthImplementation({
    '': 'SERVING',
    'svc.livez': 'SERVING',
    'svc.readyz': 'SERVING',
  });
  service.addToServer(server);
  const bound = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, found) =>
      error ? reject(error) : resolve(found),
    ),
  );
  ends.push(() => server.forceShutdown());
  await listenOn(home, { grpc: `127.0.0.1:${bound}` });
  const ask = (...args: string[]) => home.svc(['health', '--source', 'grpc', ...args]);
  assert.is((await ask()).stdout, 'serving (ready, live)\n');
  service.setStatus('svc.readyz', 'NOT_SERVING');
  const not = await ask('--json');
  assert.is(not.code, 4);
  assert.equal(JSON.parse(not.stdout), {
    source: 'grpc',
    live: true,
    ready: false,
    status: 'fail',
    state: null,
    state_path: null,
    since: null,
    reason: null,
    version: null,
  });
  service.setStatus('svc.livez', 'UNKNOWN');
  assert.is((await ask()).stdout, 'not serving (not ready, not live)\n');

  service.setStatus('svc.readyz', 'SERVING');
  const { child, ended, stdout } = home.spawn(['health', '--source', 'grpc', '--watch', '--json']);
  const lines = () =>
    stdout()
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line).ready);
  await waitFor('the state is reported', () => lines().length === 1);
  service.setStatus('svc.readyz', 'NOT_SERVING');
  await waitFor('the change is reported', () => lines().length === 2);
  child.kill('SIGINT');
  assert.is((await ended).code, 130);
  assert.equal(lines(), [true, false]);
});

test('--watch prints each change, the loss and the return of the daemon, until interrupted', async ({
  home,
  daemon,
}) => {
  let change = (_record: object) => {};
  daemon.on('health.watch', ({ event }) => {
    event(health);
    change = event;
  });
  const { child, ended, stdout, stderr } = home.spawn(['health', '--source', 'socket', '--watch']);
  await waitFor('the state is reported', () =>
    /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d {2}serving \(ready, live\)\n$/.test(stdout()),
  );
  change({ ...health, ready: false, state_path: 'stopping.draining' });
  await waitFor('the change is reported', () =>
    stdout().endsWith('not serving (stopping.draining, live)\n'),
  );
  for (const connection of daemon.connections) connection.destroy();
  await waitFor('the end of the daemon is reported', () =>
    /cannot be reached over the socket/.test(stderr()),
  );
  await waitFor('its return is reported', () =>
    /live\)\n[^\n]+ {2}serving \(ready, live\)\n$/.test(stdout()),
  );
  child.kill('SIGINT');
  assert.is((await ended).code, 130);
});

test('without a daemon each transport exits 3', async ({ home, daemon }) => {
  await daemon.close();
  for (const source of ['http', 'grpc', 'socket']) {
    const { code, stdout, stderr } = await home.svc(['health', '--source', source, '--json']);
    assert.equal([code, stdout, JSON.parse(stderr).error.code], [3, '', 'daemon_not_running']);
  }
});

function without<T extends object>(value: T, key: string): Partial<T> {
  return Object.fromEntries(Object.entries(value).filter(([name]) => name !== key)) as Partial<T>;
}

test.run();
