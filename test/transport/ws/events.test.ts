import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type ClientOptions, WebSocket } from 'ws';
import { accepted } from '../../helpers/kernel.ts';
import { waitFor } from '../../helpers/wait.ts';
import { ask, BEARER, parseRaw, TOKEN, wire } from '../http/boot.ts';
import { bootReal, type Real } from '../http/real.ts';

/** The event log over a WebSocket, from the real runtime. */
const test = suite('events');
let real: Real;

const LIMITS = { feed_events: 16, event_followers: 2, close_grace_ms: 200, queue_runs: 1000 };
test.before.each(async () => {
  real = await bootReal({ limits: LIMITS });
});
test.after.each(() => real.close());

interface Client {
  socket: WebSocket;
  seqs: number[];
  types: string[];
  closed: Promise<number>;
}

function connect(query: string, options: ClientOptions = {}): Client {
  const socket = new WebSocket(`ws://${real.host}/v1/events${query}`, {
    headers: BEARER,
    ...options,
  });
  const seqs: number[] = [];
  const types: string[] = [];
  socket.on('message', (data) => {
    const event = JSON.parse(String(data)) as { seq: number; type: string };
    seqs.push(event.seq);
    types.push(event.type);
  });
  socket.on('error', () => {});
  return { socket, seqs, types, closed: new Promise((resolve) => socket.once('close', resolve)) };
}

const opened = ({ socket }: Client) =>
  waitFor('it is connected', () => socket.readyState === WebSocket.OPEN);

let made = 0;
async function write(count: number, prompt = 'hello'): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    made += 1;
    const request = { provider: 'nobody', model: 'm', cloud: false, prompt, system: null };
    await real.kernel.append([accepted(`run_x${made}`, real.clock.now(), { request })]);
  }
}

const reaches = ({ seqs }: Client, seq: number) => (seqs.at(-1) ?? 0) >= seq;
const upTo = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index);

test('without follow it sends the existing events from a position and closes with 1000', async () => {
  const last = real.kernel.durableSeq;
  const client = connect('?from=1');
  assert.is(await client.closed, 1000);
  assert.equal(client.seqs, upTo(1, last));
  assert.is(client.types[0], 'daemon.boot_started');
  const none = connect('');
  assert.is(await none.closed, 1000);
  assert.equal(none.seqs, []);
});

test('with follow it sends new events as they are written, and the daemon closes with 1001', async () => {
  const before = real.kernel.durableSeq;
  const [replayed, live] = [connect('?from=1&follow=1'), connect('?follow=1')];
  await Promise.all([opened(replayed), opened(live)]);
  await waitFor('it was replayed', () => replayed.seqs.length === before);
  await write(20);
  const after = real.kernel.durableSeq;
  await waitFor('both have it', () => reaches(replayed, after) && reaches(live, after));
  assert.equal(replayed.seqs.slice(0, after), upTo(1, after));
  assert.equal(live.seqs.slice(0, after - before), upTo(before + 1, after));
  await real.sockets.close();
  assert.equal(await Promise.all([replayed.closed, live.closed]), [1001, 1001]);
});

test('streams and types are chosen by name or by prefix', async () => {
  await write(3);
  const runs = connect('?from=1&stream=run_*&type=run.accepted');
  const daemon = connect('?from=1&type=daemon.listening');
  assert.equal(await Promise.all([runs.closed, daemon.closed]), [1000, 1000]);
  assert.equal(runs.types, ['run.accepted', 'run.accepted', 'run.accepted']);
  assert.equal(daemon.types, ['daemon.listening']);
  assert.equal(
    (
      await (async () => {
        const one = connect(`?from=1&stream=daemon:*`);
        await one.closed;
        return one;
      })()
    ).types.every((type) => type.startsWith('daemon.')),
    true,
  );
});

test('a slow client misses nothing, delays no other, and is kept while it reads', async () => {
  const slow = connect('?from=1&follow=1');
  await opened(slow);
  slow.socket.pause();
  // Much more than the system's own buffers take.
  await write(400, 'x'.repeat(40_000));
  const last = real.kernel.durableSeq;
  assert.ok(slow.seqs.length < last);
  const quick = connect(`?from=${last}`);
  assert.is(await quick.closed, 1000);
  slow.socket.resume();
  await waitFor('the slow one has all', () => reaches(slow, last));
  assert.equal(slow.seqs.slice(0, last), upTo(1, last));
  slow.socket.terminate();
});

test('a client that disappears is closed', async () => {
  await real.close();
  real = await bootReal({ limits: { ...LIMITS, heartbeat_ms: 100 } });
  const client = connect('?follow=1', { autoPong: false });
  assert.is(await client.closed, 1006);
});

test('followers have a bound: one more is refused with a time to retry', async () => {
  const both = [connect('?follow=1'), connect('?follow=1')];
  await Promise.all(both.map(opened));
  await write(1);
  await waitFor('both follow', () => both.every(({ seqs }) => seqs.length > 0));
  assert.is(await connect('?from=1').closed, 1013);
  both[0]?.socket.terminate();
  await waitFor('there is room again', async () => (await connect('?from=1').closed) === 1000);
  both[1]?.socket.terminate();
});

test('messages of clients are ignored, and wrong parameters are refused by name', async () => {
  const client = connect('?follow=1');
  await opened(client);
  client.socket.send('{"hello":1}');
  client.socket.send(Buffer.alloc(1000));
  await write(1);
  await waitFor('it still has data', () => client.seqs.length > 0);
  client.socket.terminate();
  for (const [query, param] of [
    ['?from=-1', 'from'],
    ['?from=1e3', 'from'],
    ['?follow=2', 'follow'],
    ['?stream=a*b', 'stream'],
    ['?type=%22', 'type'],
    ['?since=1', 'since'],
    ['?from=1&from=2', 'from'],
  ]) {
    const { status, json } = parseRaw(
      await shake(`/v1/events${query}`, `Authorization: Bearer ${TOKEN}\r\n`),
    );
    assert.is(status, 400, query);
    assert.is(json.error.param, param);
  }
  assert.is((await real.get('/v1/events')).status, 426);
});

test('a browser gets in with its cookie, from our own page only', async () => {
  const signed = await ask(`${real.url}/v1/session`, { method: 'POST', body: { token: TOKEN } });
  const cookie = `Cookie: ${signed.headers['set-cookie']?.[0]?.split(';')[0]}\r\n`;
  assert.is(parseRaw(await shake('/v1/events', cookie)).status, 403, 'without an Origin');
  assert.is(
    parseRaw(await shake('/v1/events', `${cookie}Origin: https://app.example\r\n`)).status,
    403,
    'an allowed origin is not our own',
  );
  assert.is(
    parseRaw(await shake('/v1/events', `${cookie}Origin: http://evil.example\r\n`)).status,
    403,
  );
  assert.is(parseRaw(await shake('/v1/events', `Origin: ${real.url}\r\n`)).status, 401);
  const socket = connect('?from=1', {
    headers: { cookie: cookie.slice('Cookie: '.length).trim() },
    origin: real.url,
  });
  assert.is(await socket.closed, 1000);
  assert.ok(socket.seqs.length > 0);
});

function shake(target: string, headers: string): Promise<string> {
  return wire(
    Number(real.host.split(':')[1]),
    `GET ${target} HTTP/1.1\r\nHost: ${real.host}\r\n${headers}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`,
  ).ended;
}

test.run();
