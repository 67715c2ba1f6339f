import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Duplex } from 'node:stream';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { createConnections } from '../../../src/transport/http/connection/connections.ts';
import { waitFor } from '../../helpers/wait.ts';
import { ask, BEARER, type Booted, boot, parseRaw, TOKEN, type Wire, wire } from './boot.ts';

/** Which connections stay when there are too many connections or requests. */
const test = suite<{ http: Booted }>('connections');

const LIMITS = { connections: 4, spare_connections: 4 };
const ALL = LIMITS.connections + LIMITS.spare_connections;

test.before.each(async (context) => {
  context.http = await boot({ limits: LIMITS });
});

test.after.each(({ http }) => http.close());

const livez = ({ host }: Booted) => `GET /livez HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
const answers = (line: Wire) => line.received().match(/HTTP\/1\.1 \d+/g)?.length ?? 0;
const isClosed = (line: Wire) => line.socket.destroyed;

/** A connection that got an answer, and idles. */
async function idleLine(http: Booted): Promise<Wire> {
  const line = wire(http.port, livez(http));
  await waitFor('an answer', () => answers(line) === 1);
  return line;
}

/** A stream that the token opened. */
async function follower(http: Booted, run_id: string): Promise<Wire> {
  const line = wire(
    http.port,
    `GET /v1/runs/${run_id}/events HTTP/1.1\r\nHost: ${http.host}\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`,
  );
  await waitFor('an answer', () => answers(line) === 1);
  return line;
}

async function startRun(http: Booted): Promise<string> {
  return (
    await ask(`${http.url}/v1/runs`, { method: 'POST', headers: BEARER, body: { prompt: 'a' } })
  ).json.id;
}

test('a new connection replaces the one that idles longest when all are in use', async ({
  http,
}) => {
  const lines: Wire[] = [];
  while (lines.length < ALL) lines.push(await idleLine(http));
  lines[0]?.socket.write(livez(http));
  await waitFor('the first to be answered again', () => answers(lines[0] as Wire) === 2);
  assert.is((await ask(`${http.url}/livez`)).status, 200);
  await waitFor('one to be closed', () => lines.some(isClosed));
  assert.equal(
    lines.map(isClosed).indexOf(true),
    1,
    'the first is not the one that idles longest any more',
  );
  assert.is(lines.filter(isClosed).length, 1);
  assert.match(
    String(http.logged.at(-1)?.fields.refused && JSON.stringify(http.logged.at(-1)?.fields)),
    'closed_for_room',
  );
});

test('an idle connection makes room before an older one without a request; the oldest of those gets the reason', async ({
  http,
}) => {
  const slow = Array.from({ length: ALL - 1 }, () =>
    wire(http.port, `POST /v1/session HTTP/1.1\r\nHost: ${http.host}\r\nContent-Length: 9\r\n`),
  );
  await waitFor('all are connected', () => slow.every((line) => !line.socket.connecting));
  const idle = await idleLine(http);
  const next = await idleLine(http);
  await idle.ended;
  assert.is(slow.filter(isClosed).length, 0);
  next.socket.destroy();
  await next.ended;
  const more = Array.from({ length: 3 }, () => wire(http.port));
  await waitFor('two are closed', () => slow.filter(isClosed).length === 2);
  for (const line of slow.filter(isClosed)) {
    const { status, json, head } = parseRaw(await line.ended);
    assert.is(status, 503);
    assert.is(json.error.code, 'too_many_connections');
    assert.match(head, 'Retry-After: 1');
  }
  for (const line of [...slow, ...more]) line.socket.destroy();
});

test('streams with the token are never replaced, and leave room for health', async ({ http }) => {
  const run_id = await startRun(http);
  const followers: Wire[] = [];
  while (followers.length < LIMITS.connections) followers.push(await follower(http, run_id));
  const late = await ask(`${http.url}/v1/runs/${run_id}/events`, { headers: BEARER });
  assert.is(late.status, 503);
  assert.is(late.json.error.code, 'too_many_connections');
  assert.is(late.headers['retry-after'], '1');
  for (let n = 0; n < 3 * ALL; n += 1) await idleLine(http);
  assert.is(followers.filter(isClosed).length, 0);
  followers[0]?.socket.destroy();
  await waitFor(
    'a place',
    async () => (await ask(`${http.url}/v1/runs`, { headers: BEARER })).status === 200,
  );
});

test('a remote address over its share replaces its own connection; this machine has no share', () => {
  const refused: string[] = [];
  const limits = { connections: 8, spare_connections: 4, address_connections: 2, open_requests: 4 };
  const connections = createConnections(limits, (kind) => refused.push(kind));
  const from = (remoteAddress: string) => {
    const socket = Object.assign(new Duplex({ read() {}, write: (_, __, done) => done() }), {
      remoteAddress,
    });
    connections.take(socket);
    return socket;
  };
  const other = from('192.0.2.2');
  const local = ['127.0.0.1', '::1', '::ffff:127.0.0.1', '127.0.0.1'].map(from);
  const [first, second] = [from('192.0.2.1'), from('192.0.2.1')];
  connections.hold(second);
  const third = from('192.0.2.1');
  assert.equal(refused, [], 'what the token opened does not count');
  from('192.0.2.1');
  assert.equal(
    [other, ...local, first, second, third].map((socket) => socket.destroyed),
    [false, false, false, false, false, true, false, false],
  );
  assert.equal(refused, ['address_share']);
  connections.destroyAll();
});

test('a few requests at once are all answered, in order', async ({ http }) => {
  const line = wire(http.port, livez(http).repeat(http.limits.open_requests));
  await waitFor('all answers', () => answers(line) === http.limits.open_requests);
  line.socket.write(`GET /readyz HTTP/1.1\r\nHost: ${http.host}\r\nConnection: close\r\n\r\n`);
  assert.is((await line.ended).match(/HTTP\/1\.1 200/g)?.length, http.limits.open_requests + 1);
});

test('thousands of requests at once are parsed up to the bound, and none is answered', async ({
  http,
}) => {
  let parsed = 0;
  const count = () => {
    parsed += 1;
  };
  subscribe('http.server.request.start', count);
  const requests = [
    livez(http),
    'GET / HTTP/1.1\r\n\r\n',
    `GET / HTTP/1.1\r\nHost: ${http.host}\r\nExpect: x\r\n\r\n`,
  ];
  for (const request of requests) {
    parsed = 0;
    await wire(http.port, request.repeat(2000)).ended;
    assert.is(parsed, http.limits.open_requests, request);
  }
  unsubscribe('http.server.request.start', count);
  assert.equal(http.runtime.calls, []);
  assert.is(
    http.logged.filter(({ level }) => level === 'warn').length,
    1,
    'one line, however many there are',
  );
});

test('a connection ends after so many requests, and says so', async () => {
  const http = await boot({ limits: { connection_requests: 3 } });
  const line = wire(http.port, livez(http).repeat(3));
  const received = await line.ended;
  assert.is(received.match(/HTTP\/1\.1 200/g)?.length, 3);
  assert.is(received.match(/Connection: close/g)?.length, 1);
  await http.close();
});

test('a connection stays open after an answer for longer than clients keep it', async () => {
  const http = await boot();
  const line = wire(http.port, livez(http));
  await waitFor('the answer', () => line.received().includes('\r\n\r\n'));
  assert.match(line.received(), '\r\nKeep-Alive: timeout=95,');
  await http.close();
});

test('a connection without a request ends', async () => {
  const http = await boot({ limits: { connection_idle_ms: 1 } });
  assert.match(await wire(http.port, livez(http)).ended, 'HTTP/1.1 200 ');
  assert.is(http.server.listening, true, 'the connection ended, and not the server');
  await http.close();
});

test('a slow body of a sign-in ends in 408 and a closed connection', async () => {
  const http = await boot({ limits: { sign_in_ms: 200 } });
  const head = `POST /v1/session HTTP/1.1\r\nHost: ${http.host}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n`;
  const { status, json } = parseRaw(await wire(http.port, `${head}{`).ended);
  assert.is(status, 408);
  assert.is(json.error.code, 'request_timed_out');
  await http.close();
});

test.run();
