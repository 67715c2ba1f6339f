import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { WebSocket } from 'ws';
import { waitFor } from '../../helpers/wait.ts';
import { ask, parseRaw, TOKEN, wire } from './boot.ts';
import { bootReal, type Real } from './real.ts';

/** What a session admitted ends with it, even for a client that reads or sends slowly. */
const test = suite('what a session let in');
let real: Real;
let cookie = '';
/** Connections of clients, on the side of the listener. */
const connections = () =>
  new Promise<number>((resolve) => real.server.getConnections((_, count) => resolve(count)));

test.before.each(async () => {
  real = await bootReal({ limits: { close_grace_ms: 50, heartbeat_ms: 600_000 } });
  const { headers } = await ask(`${real.url}/v1/session`, {
    method: 'POST',
    body: { token: TOKEN },
  });
  cookie = (headers['set-cookie']?.[0] ?? '').split(';')[0] ?? '';
});
test.after.each(() => real.close());

test('a request whose body is incomplete at the sign-out is refused', async () => {
  const body = JSON.stringify({ prompt: 'late' });
  const head = `POST /v1/runs HTTP/1.1\r\nHost: ${real.host}\r\nCookie: ${cookie}\r\nOrigin: ${real.url}\r\nSec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  const line = wire(Number(real.host.split(':').at(-1)), head + body.slice(0, 5));
  const [request] = (await once(real.server, 'request')) as [IncomingMessage];
  await waitFor('the body to be read', () => request.readableFlowing === true);
  await real.sessions.closeAll();
  line.socket.write(body.slice(5));
  await waitFor('the answer', () => line.received().includes('"code"'));
  line.socket.destroy();
  assert.is(parseRaw(await line.ended).status, 401);
  assert.is((await real.get('/v1/runs')).json.runs.length, 0);
});

test('a follower that reads nothing is disconnected soon after the sign-out', async () => {
  const run = await real.get('/v1/runs', {
    method: 'POST',
    body: { prompt: 'x'.repeat(4_000_000) },
  });
  for (let count = 0; count < 3; count += 1)
    await real.get('/v1/runs', { method: 'POST', body: { prompt: 'y'.repeat(4_000_000) } });
  const socket = new WebSocket(`${real.url.replace('http', 'ws')}/v1/events?from=1&follow=1`, {
    headers: { cookie, origin: real.url },
  });
  await once(socket, 'open');
  socket.pause();
  const request = get(`${real.url}/v1/runs/${run.json.id}/events`, {
    headers: { cookie, 'sec-fetch-site': 'same-origin' },
    agent: false,
  });
  const [stream] = (await once(request, 'response')) as [IncomingMessage];
  stream.socket.pause();
  await waitFor('both have arrived', async () => (await connections()) === 2);
  await real.sessions.closeAll();
  await waitFor('both to be cut off', async () => (await connections()) === 0);
  request.destroy();
  socket.terminate();
});

test.run();
