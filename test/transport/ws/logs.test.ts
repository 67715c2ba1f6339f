import { once } from 'node:events';
import { appendFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ClientOptions } from 'ws';
import { SvcError } from '../../../src/errors.ts';
import { waitFor } from '../../helpers/wait.ts';
import { parseRaw } from '../http/boot.ts';
import { type Client, type Context, close, connect, handshake, open } from './boot.ts';

const test = suite<Context>('logs over WebSocket');

test.before.each(async (context) => {
  Object.assign(context, await open());
});

test.after.each(close);

const numbers = (client: Client) => client.lines.map((line) => line.n);

test('the tail is sent, one line a message, and the connection closed with 1000', async ({
  http,
  daemon,
}) => {
  for (let n = 0; n < 150; n += 1) daemon.log.info({ n }, 'line');
  const some = connect(http, '?tail=3');
  assert.is(await some.closed, 1000);
  assert.equal(numbers(some), [147, 148, 149]);
  const usual = connect(http, '');
  assert.is(await usual.closed, 1000);
  assert.is(usual.lines.length, 100);
  const none = connect(http, '?tail=0');
  assert.is(await none.closed, 1000);
  assert.equal(none.lines, []);
});

test('lines are filtered by level, run and time, in the tail and while following', async ({
  http,
  daemon,
}) => {
  const log = (from: number) => {
    for (let n = from; n < from + 8; n += 1)
      daemon.log[n % 2 ? 'warn' : 'info']({ n, run_id: `run_${n % 4}` }, 'line');
  };
  log(0);
  const warned = connect(http, '?follow=1&level=warn');
  const ofRun = connect(http, '?follow=true&run=run_3');
  const late = connect(
    http,
    `?follow=1&since=${encodeURIComponent(new Date(Date.now() + 3_600_000).toISOString())}`,
  );
  await waitFor('the tails', () => warned.lines.length === 4 && ofRun.lines.length === 2);
  log(8);
  await waitFor('the new lines', () => warned.lines.length === 8 && ofRun.lines.length === 4);
  assert.equal(numbers(warned), [1, 3, 5, 7, 9, 11, 13, 15]);
  assert.equal(numbers(ofRun), [3, 7, 11, 15]);
  assert.equal(late.lines, []);
});

test('between the tail and new lines none is lost or doubled, over rotations too', async ({
  http,
  daemon,
}) => {
  const clients: Client[] = [];
  let n = 0;
  for (let round = 0; round < 60; round += 1) {
    for (let burst = 0; burst < 10; burst += 1) daemon.log.info({ n: n++ }, 'x'.repeat(60));
    if (round % 6 === 0) clients.push(connect(http, '?tail=100000&follow=1'));
    await new Promise((resolve) => setImmediate(resolve));
  }
  const last = n - 1;
  for (const client of clients) {
    await waitFor('the last line', () => client.lines.at(-1)?.n === last);
    const seen = numbers(client).filter((value) => value !== undefined) as number[];
    const missed = client.lines.reduce(
      (sum, line) => sum + (typeof line.missed === 'number' ? line.missed : 0),
      0,
    );
    assert.is(new Set(seen).size, seen.length, 'no line twice');
    assert.is(
      seen.length + missed,
      last + 1 - (seen[0] ?? 0),
      'every line, or told that it was missed',
    );
    assert.equal(
      seen,
      [...seen].sort((a, b) => a - b),
    );
  }
});

test('a slow follower gets the count of missed lines, and does not delay the daemon', async ({
  http,
  daemon,
}) => {
  const client = connect(http, '?tail=0&follow=1');
  await new Promise((resolve) => client.socket.once('open', resolve));
  daemon.log.info({ n: -1 }, 'before');
  await waitFor('the first line', () => client.lines.length === 1);
  client.socket.pause();
  const total = 3000;
  for (let n = 0; n < total; n += 1) {
    daemon.log.info({ n, pad: 'x'.repeat(10_000) }, 'line');
    if (n % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  client.socket.resume();
  await waitFor('the last line', () => client.lines.at(-1)?.n === total - 1);
  const seen = client.lines.filter((line) => typeof line.n === 'number').length - 1;
  const missed = client.lines.reduce(
    (sum, line) => sum + (typeof line.missed === 'number' ? line.missed : 0),
    0,
  );
  assert.ok(missed > 0);
  assert.is(seen + missed, total);
});

test('a peer that answers no ping is closed, and one that does stays', async () => {
  const own = await open({ heartbeat_ms: 100 });
  const { http } = own;
  const deaf = connect(http, '?tail=0&follow=1', { autoPong: false } as ClientOptions);
  const alive = connect(http, '?tail=0&follow=1');
  let pings = 0;
  alive.socket.on('ping', () => {
    pings += 1;
  });
  assert.is(await deaf.closed, 1006);
  await waitFor('several pings', () => pings >= 5);
  assert.is(alive.socket.readyState, alive.socket.OPEN);
  await close(own);
});

test('messages of a client are ignored, and bounded', async ({ http, daemon }) => {
  const client = connect(http, '?tail=0&follow=1');
  await new Promise((resolve) => client.socket.once('open', resolve));
  client.socket.send('hello');
  daemon.log.info({ n: 1 }, 'line');
  await waitFor('the line', () => client.lines.length === 1);
  client.socket.send(Buffer.alloc(http.limits.client_frame_bytes + 1));
  assert.ok([1009, 1006].includes(await client.closed));
});

test('when the daemon stops a follower gets the last lines, then 1001; one that does not answer is disconnected', async ({
  http,
  daemon,
  channel,
}) => {
  const client = connect(http, '?tail=0&follow=1');
  const stuck = connect(http, '?tail=0&follow=1');
  await Promise.all(
    [client, stuck].map(({ socket }) => new Promise((resolve) => socket.once('open', resolve))),
  );
  stuck.socket.pause();
  for (let n = 0; n < 5; n += 1) daemon.log.info({ n }, 'line');
  const closed = channel.close();
  assert.is(await client.closed, 1001);
  assert.equal(numbers(client), [0, 1, 2, 3, 4]);
  await closed;
  stuck.socket.resume();
  await stuck.closed;
  assert.is(parseRaw(await handshake(http, '/v1/logs')).status, 503);
});

test('a log that cannot be read closes with 1011', async ({ http, folder }) => {
  rmSync(folder, { recursive: true });
  writeFileSync(folder, 'not a folder');
  assert.is(await connect(http, '?tail=1').closed, 1011);
});

test('lines that are not JSON are sent as JSON', async ({ http, daemon, folder }) => {
  daemon.log.info({ n: 1 }, 'line');
  appendFileSync(join(folder, 'svc.log'), 'torn {"level":\n');
  const client = connect(http, '?tail=10');
  assert.is(await client.closed, 1000);
  assert.equal(
    client.lines.map((line) => line.n ?? line.raw),
    [1, 'torn {"level":'],
  );
});

test('a tail ends when the token changes', async ({ http, folder, token }) => {
  const line = JSON.stringify({ level: 'info', msg: 'x'.repeat(2000) });
  appendFileSync(join(folder, 'svc.log'), `${line}\n`.repeat(20_000));
  const client = connect(http, '?tail=20000');
  await once(client.socket, 'message');
  client.socket.pause();
  token.abort(new SvcError('unauthorised', 'The token was changed.'));
  client.socket.resume();
  await client.closed;
  assert.ok(client.lines.length < 20_000, 'all lines were sent');
});

test.run();
