import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type WebSocket, WebSocketServer } from 'ws';
import { untilReady } from '../../src/cli/terminal/connect/until-ready.ts';
import { SvcError } from '../../src/errors.ts';
import { type RuntimeFile, writeRuntimeFile } from '../../src/home/runtime-file.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { runtimeFile, startFakeDaemon } from './fake-daemon.ts';

interface LogServer {
  server: Server;
  asked: URL[];
  clients: WebSocket[];
  /** Names its address. */
  file: RuntimeFile;
}

const test = suite<{ home: Home; door: LogServer }>('svc logs');

const line = (n: number, more: object = {}) =>
  JSON.stringify({
    level: 'info',
    time: '2026-01-02T03:04:05.678Z',
    boot_id: 'b',
    msg: `line ${n}`,
    n,
    ...more,
  });

test.before.each(async (context) => {
  context.home = makeHome();
  mkdirSync(context.home.paths.logs, { recursive: true });
  writeFileSync(
    join(context.home.paths.logs, 'svc.log'),
    Array.from({ length: 150 }, (_, n) => `${line(n)}\n`).join(''),
  );
});
test.after.each(async ({ home, door }) => {
  door?.server.closeAllConnections();
  door?.server.close();
  for (const client of door?.clients ?? []) client.terminate();
  await home.close();
});

/** A log endpoint that checks the token and passes each client to `serve`. */
async function openLogServer(home: Home, serve: (client: WebSocket) => void): Promise<LogServer> {
  const server = createServer();
  const sockets = new WebSocketServer({ noServer: true });
  const door: LogServer = { server, asked: [], clients: [], file: runtimeFile };
  server.on('upgrade', (request, socket, head) => {
    if (request.headers.authorization !== 'Bearer secret') {
      socket.end('HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n');
      return;
    }
    door.asked.push(new URL(request.url ?? '', 'http://x'));
    sockets.handleUpgrade(request, socket, head, (client) => {
      door.clients.push(client);
      serve(client);
    });
  });
  return listenAt(home, door);
}

async function listenAt(home: Home, door: LogServer): Promise<LogServer> {
  const { server } = door;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  mkdirSync(home.paths.data, { recursive: true });
  writeFileSync(home.paths.token, 'secret\n');
  const http = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  door.file = { ...runtimeFile, addresses: { ...runtimeFile.addresses, http } };
  await writeRuntimeFile(home.paths.runtime, door.file);
  return door;
}

test('without a daemon the lines are from its files: 100, or as many as are asked for', async ({
  home,
}) => {
  const numbers = async (...args: string[]) => {
    const { code, stdout, stderr } = await home.svc(['logs', '--json', ...args]);
    assert.equal([code, stderr], [0, '']);
    return stdout
      .split('\n')
      .filter(Boolean)
      .map((text) => JSON.parse(text).n);
  };
  assert.is((await numbers()).length, 100);
  assert.equal(await numbers('--tail', '2'), [148, 149]);
  assert.equal(await numbers('-n3'), [147, 148, 149]);
  assert.equal(await numbers('--tail', '0'), []);
  assert.equal(await numbers('--level', 'warn'), []);
  assert.equal(await numbers('--since', '1d'), []);
  const { stdout } = await home.svc(['logs', '--tail', '1', '--json']);
  assert.is(stdout, `${line(149)}\n`);
});

test('without a daemon there is nothing to follow: the lines, then exit 3', async ({ home }) => {
  for (const args of [
    ['-f', '-n', '1'],
    ['--tail', '--json'],
  ]) {
    const { code, stdout, stderr } = await home.svc(['logs', ...args]);
    assert.is(code, 3);
    assert.match(stdout, 'line 149');
    assert.match(stderr, 'nothing to follow');
  }
});

const RUN = 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV';

test('a daemon is followed over its channel, with the token and what is wanted', async (context) => {
  const { home } = context;
  context.door = await openLogServer(home, (client) => {
    client.send(
      line(7, { run_id: 'run_1', err: { message: 'it broke', stack: 'Error: it broke\n at x' } }),
    );
    client.close(1000);
  });
  const { code, stdout, stderr } = await home.svc([
    'logs',
    '-f',
    '--tail',
    '5',
    '--level',
    'warn',
    '--run',
    RUN,
    '--since',
    '2026-01-02',
  ]);
  assert.equal([code, stderr], [0, '']);
  assert.match(
    stdout,
    /^2026-01-0\d \d\d:\d\d:05\.678 INFO {2}line 7 n=7 run_id=run_1 err="it broke"\n$/,
  );
  const query = Object.fromEntries(context.door.asked[0]?.searchParams ?? []);
  assert.equal(query, {
    tail: '5',
    follow: '1',
    level: 'warn',
    run: RUN,
    since: '2026-01-02T00:00:00.000Z',
  });
  assert.is(
    (await home.svc(['logs', '-f', '--json'])).stdout,
    `${line(7, { run_id: 'run_1', err: { message: 'it broke', stack: 'Error: it broke\n at x' } })}\n`,
  );
});

test('following goes on until Ctrl-C, and with the daemon that takes over,', async (context) => {
  const { home } = context;
  context.door = await openLogServer(home, (client) => client.send(line(1)));
  const follow = home.spawn(['logs', '--tail', '--json']);
  await waitFor('the first line is there', () => follow.stdout() === `${line(1)}\n`);
  context.door.clients[0]?.send(line(2));
  await waitFor('the next line is there', () => follow.stdout() === `${line(1)}\n${line(2)}\n`);
  assert.is(context.door.asked[0]?.searchParams.get('follow'), '1');
  follow.child.kill('SIGINT');
  assert.is((await follow.ended).code, 130);

  const again = home.spawn(['logs', '-f']);
  await waitFor('the line is there', () => again.stdout() !== '');
  context.door.clients[1]?.send('{"missed":3}');
  context.door.clients[1]?.close(1001);
  await waitFor('it says so', () => again.stderr().endsWith('The daemon stopped.\n'));
  const daemon = await startFakeDaemon(home);
  await writeRuntimeFile(home.paths.runtime, context.door.file);
  await waitFor('the next daemon is asked', () => context.door.clients.length === 3);
  const { searchParams } = context.door.asked[2] ?? new URL('http://x');
  // From a moment before the newest line, which both of them may have written.
  assert.is(searchParams.get('since'), '2026-01-02T03:04:05.578Z');
  assert.is(searchParams.get('follow'), '1');
  context.door.clients[2]?.send(line(2));
  context.door.clients[2]?.send(line(2));
  context.door.clients[2]?.close(1000);
  const { code, stdout, stderr } = await again.ended;
  await daemon.close();
  assert.is(code, 0);
  assert.equal(stdout.match(/line \d/g), ['line 1', 'line 2', 'line 2']);
  assert.is(
    stderr,
    '3 lines were dropped: they came faster than they were read.\nThe daemon stopped.\n',
  );
});

test('nothing is waited for without a daemon, or once it is not wanted', async ({ home }) => {
  assert.is(await untilReady(home.paths, { wait_ms: 1 }), false);
  assert.is(await untilReady(home.paths, { signal: AbortSignal.abort() }), false);
});

test('a channel that breaks in the middle is an error; one that refuses is made good by the files', async (context) => {
  const { home } = context;
  context.door = await openLogServer(home, (client) =>
    client.send(line(1), () => client.terminate()),
  );
  const daemon = await startFakeDaemon(home);
  await writeRuntimeFile(home.paths.runtime, context.door.file);
  const broken = await home.svc(['logs', '-f', '--json']);
  await daemon.close();
  assert.is(broken.code, 10);
  assert.is(context.door.asked.length, 6, 'five more connections brought no line');
  assert.is(broken.stdout, `${line(1)}\n`);
});

test('the refusal of the daemon is shown, and does not count as a stopped daemon', async (context) => {
  const { home } = context;
  const told = new SvcError('invalid_request', 'tail must be a whole number from 0 to 5.', {
    param: 'tail',
  }).body();
  const typed = { ...told, hint: 'See: svc logs --help' };
  const refused = {
    tail: [2, told, typed],
    token: [5, new SvcError('unauthorised').body()],
    other: [10, null],
  } as const;
  for (const [exit, body, shown = body] of Object.values<readonly [number, object | null, object?]>(
    refused,
  )) {
    const server = createServer().on('upgrade', (_, socket) => {
      const text = body === null ? 'no' : JSON.stringify({ error: body });
      socket.end(`HTTP/1.1 400 Bad Request\r\ncontent-length: ${text.length}\r\n\r\n${text}`);
    });
    context.door = await listenAt(home, { server, asked: [], clients: [], file: runtimeFile });
    const { code, stdout, stderr } = await home.svc(['logs', '-f', '--tail', '9', '--json']);
    assert.equal([code, stdout], [exit, '']);
    if (body !== null) assert.equal(JSON.parse(stderr).error, shown);
    server.close();
  }
});

test('the last lines need no daemon, and a silent one cannot be followed', async (context) => {
  const { home } = context;
  context.door = await listenAt(home, {
    server: createServer().on('upgrade', () => {}),
    asked: [],
    clients: [],
    file: runtimeFile,
  });
  const [read, follow] = await Promise.all([
    home.svc(['logs', '-n', '1']),
    home.svc(['logs', '-n', '1', '-f', '--json']),
  ]);
  assert.is(read.code, 0);
  assert.match(read.stdout, 'line 149');
  assert.is(read.stderr, '');
  assert.equal(
    [follow.code, follow.stdout, JSON.parse(follow.stderr).error.code],
    [124, '', 'timed_out'],
  );
});

test('an invalid query is refused before any request, exit 2', async ({ home }) => {
  for (const args of [
    ['--run', 'a b'],
    ['--run', 'x'.repeat(81)],
    ['--since', '999999999d'],
    ['--since', '9999999d'],
    ['--since', '9999-12-31T23:59-01:00'],
  ]) {
    const { code, stderr } = await home.svc(['logs', ...args, '--json']);
    assert.equal([code, JSON.parse(stderr).error.code], [2, 'usage'], args.join(' '));
  }
});

test('a reader who leaves ends it, quietly', async (context) => {
  const { home } = context;
  context.door = await openLogServer(home, (client) => {
    const speak = () =>
      client.readyState === client.OPEN && client.send(line(1), () => setImmediate(speak));
    speak();
  });
  const { child, ended } = home.spawn(['logs', '-f', '--json']);
  child.stdout?.once('data', () => child.stdout?.destroy());
  assert.equal(await ended.then(({ code, stderr }) => [code, stderr]), [0, '']);
});

test.run();
