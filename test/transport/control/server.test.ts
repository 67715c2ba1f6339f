import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import { platform } from '../../../src/home/platform.ts';
import { defaultLimits } from '../../../src/limits.ts';
import type { Reply } from '../../../src/transport/control/methods.ts';
import type { Method } from '../../../src/transport/control/protocol.ts';
import { ControlServer } from '../../../src/transport/control/server.ts';
import { silent } from '../../helpers/kernel.ts';
import { waitFor } from '../../helpers/wait.ts';

interface Context {
  folder: string;
  server: ControlServer | null;
}

const test = suite<Context>('the local socket, served');

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-control-'));
  context.server = null;
});
test.after.each(async ({ folder, server }) => {
  await server?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function serve(
  context: Context,
  handlers: Partial<Record<Method, (params: unknown, reply: Reply) => unknown>>,
  socket = join(context.folder, 'svc.sock'),
  log = silent,
): Promise<Socket> {
  const limits = { ...defaultLimits, close_grace_ms: 20 };
  context.server = new ControlServer({
    socket,
    call: async (method, params, reply) => handlers[method as Method]?.(params, reply),
    limits,
    log,
    http: (socket) => socket.destroy(),
  });
  const client = connect(await context.server.listen());
  await once(client, 'connect');
  return client;
}

const request = (id: number, method = 'status') =>
  `${JSON.stringify({ id, method, params: {} })}\n`;

test('a client that leaves, or gives up a request, is no failure of the daemon', async (context) => {
  const errors: unknown[] = [];
  const log = { ...silent, error: (fields: object) => void errors.push(fields) };
  const signals: AbortSignal[] = [];
  const wait = (_: unknown, { signal }: Reply) =>
    new Promise((_, reject) => {
      signals.push(signal);
      signal.addEventListener('abort', () => reject(signal.reason));
    });
  const client = await serve(context, { status: wait }, join(context.folder, 'svc.sock'), log);
  client.write(`${request(1)}${request(2)}${JSON.stringify({ id: 1, cancel: true })}\n`);
  const [answer] = await once(client.setEncoding('utf8'), 'data');
  assert.is(JSON.parse(answer).error.code, 'connection_lost');
  client.destroy();
  await waitFor('both are over', () => signals.filter(({ aborted }) => aborted).length === 2);
  await context.server?.close();
  assert.equal(errors, []);
});

test('the requests of a client that does not read wait, and each is answered once it reads', async (context) => {
  let asked = 0;
  const answer = 'x'.repeat(64 * 1024);
  const client = await serve(context, {
    status: () => {
      asked += 1;
      return answer;
    },
  });
  client.pause();
  const all = 4000;
  let sent = 0;
  const send = () => {
    while (sent < all) {
      sent += 1;
      if (!client.write(request(sent).padEnd(4096))) return;
    }
  };
  client.on('drain', send);
  send();
  let before = -1;
  await waitFor(
    'the server reads no further',
    () => {
      const still = asked > 0 && asked === before;
      before = asked;
      return still;
    },
    { every_ms: 100 },
  );
  assert.ok(asked < 200, `${asked} answers of 64 KiB wait in memory`);
  const seen = new Set<number>();
  let rest = '';
  client.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) seen.add(JSON.parse(line).id);
  });
  client.resume();
  await waitFor('every request is answered', () => seen.size === all, { within_ms: 60_000 });
  client.destroy();
});

test('a client that does not read cannot keep the server from closing', async (context) => {
  const client = await serve(context, { status: () => 'x'.repeat(8 * 1024 * 1024) });
  client.on('error', () => {});
  client.pause();
  client.write(request(1));
  await once(client, 'readable');
  let closed = false;
  const closing = context.server?.close().then(() => {
    closed = true;
  });
  context.server = null;
  await waitFor('the server is closed', () => closed);
  await closing;
  client.destroy();
});

test('a socket that was removed is made again, as often as that happens, and open connections stay', async (context) => {
  if (!platform.hasSocketFile) return;
  const socket = join(context.folder, 'svc.sock');
  const said: unknown[] = [];
  const log = { ...silent, warn: (...[, text]: unknown[]) => void said.push(text) };
  const first = await serve(context, { status: () => 'up' }, socket, log);
  const answers = async (client: Socket) => {
    client.write(request(1));
    const [text] = await once(client, 'data');
    assert.match(String(text), '"up"');
  };
  for (const time of [1, 2]) {
    rmSync(socket);
    await waitFor('the socket is there', () => existsSync(socket) && said.length === time);
    assert.is(statSync(socket).mode & 0o777, 0o600);
    const client = connect(socket);
    await once(client, 'connect');
    await answers(client);
    client.destroy();
  }
  await answers(first);
  assert.equal(said, Array(2).fill('the local socket was removed, and was made again'));
  first.destroy();
  await context.server?.close();
  context.server = null;
  assert.not.ok(existsSync(socket));
});

test('a connection that closes during a start cancels its request, and the run continues', async (context) => {
  let signal: AbortSignal | undefined;
  let finish = () => {};
  let finished = false;
  const client = await serve(context, {
    'run.start': async (_, reply) => {
      signal = reply.signal;
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      finished = true;
      return {};
    },
  });
  client.write(request(1, 'run.start'));
  await waitFor('the request is open', () => signal !== undefined);
  client.destroy();
  await waitFor('the request is cancelled', () => signal?.aborted);
  assert.not.ok(finished);
  finish();
  await waitFor('the work ends', () => finished);
});

test('a folder that others can change is refused for the socket, with a hint', async (context) => {
  const folder = join(context.folder, 'shared');
  mkdirSync(folder);
  chmodSync(folder, 0o777);
  const error = await serve(context, {}, join(folder, 'svc.sock')).then(
    () => null,
    (thrown: SvcError) => thrown,
  );
  assert.is(error?.code, 'home_unusable');
  assert.match(error?.body().hint ?? '', /chmod 700/);
});

test('a folder in the place of the socket is an error with its name and a hint', async (context) => {
  const socket = join(context.folder, 'svc.sock');
  mkdirSync(socket);
  const error = await serve(context, {}, socket).then(
    () => null,
    (thrown: SvcError) => thrown,
  );
  assert.is(error?.code, 'home_unusable');
  assert.match(error?.message ?? '', /svc\.sock is a folder/);
  assert.match(error?.hint ?? '', /Move the folder away/);
});

test('a socket that cannot be created is an error with its name', async (context) => {
  const socket = join(context.folder, `${'x'.repeat(120)}.sock`);
  const error = await serve(context, {}, socket).then(
    () => null,
    (thrown: SvcError) => thrown,
  );
  assert.is(error?.code, 'address_refused');
  assert.match(error?.message ?? '', /x\.sock cannot be created/);
});

test('a request over the bound of a line is refused with the limit to raise', async (context) => {
  const client = await serve(context, { status: () => 'ok' });
  client.on('error', () => {}).write('x'.repeat(defaultLimits.message_bytes + 1));
  let text = '';
  for await (const chunk of client.setEncoding('utf8')) text += chunk;
  const { id, error } = JSON.parse(text);
  assert.equal([id, error.code], [0, 'body_too_large']);
  assert.match(error.hint, 'raise the limit prompt_bytes');
});

test.run();
