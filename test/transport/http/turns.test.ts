import { once } from 'node:events';
import type { Socket } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { WebSocket } from 'ws';
import { TURN_BYTES, WRITE_BYTES } from '../../../src/transport/stream/unsent-bytes.ts';
import { accepted } from '../../helpers/kernel.ts';
import { finish, gate, output } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import { BEARER, TOKEN, type Wire, wire } from './boot.ts';
import { bootReal, type Real } from './real.ts';

/**
 * How many clients the listener writes to in one turn of the event loop, with the real runtime.
 */
const test = suite('turns of the event loop');
let real: Real;
/** Sockets of the listener with a write in this turn, and the most of one turn. */
let now: Set<Socket>;
let most: number;
let isOver: boolean;

test.before.each(async () => {
  real = await bootReal({ limits: { event_followers: 100 } });
  [now, most, isOver] = [new Set(), 0, false];
  real.server.on('connection', (socket: Socket) => {
    const note =
      <A extends unknown[], R>(write: (...args: A) => R) =>
      (...args: A): R => {
        now.add(socket);
        most = Math.max(most, now.size);
        return write.apply(socket, args);
      };
    // Writes that reach the system: one call for one write, and one for many together.
    socket._write = note(socket._write);
    if (socket._writev !== undefined)
      socket._writev = note(socket._writev as NonNullable<Socket['_writev']>);
  });
  const turn = () => {
    now.clear();
    if (!isOver) setImmediate(turn);
  };
  turn();
});
test.after.each(async () => {
  isOver = true;
  await real.close();
});

/** Writes that the turn released, and writes that ran at once. */
const A_TURN = 2 * (TURN_BYTES / WRITE_BYTES);

async function writeRun(name: string): Promise<void> {
  const request = { provider: 'nobody', model: 'm', cloud: false, prompt: 'hello', system: null };
  await real.kernel.append([accepted(name, real.clock.now(), { request })]);
}

test('an event for many followers of a run is written over several turns', async () => {
  const { opened, open } = gate();
  real.provider.script = [() => opened, output('answer', 1), finish()];
  const { id } = await real.runtime.runs.start({ prompt: 'hello' }, 'test');
  const ask = `GET /v1/runs/${id}/events HTTP/1.1\r\nHost: ${real.host}\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`;
  const clients: Wire[] = Array.from({ length: 150 }, () =>
    wire(Number(new URL(real.url).port), ask),
  );
  await waitFor('all have the first event', () =>
    clients.every((client) => client.received().includes('event: run.accepted')),
  );
  most = 0;
  open();
  await waitFor('all have the last one', () =>
    clients.every((client) => client.received().includes('event: run.completed')),
  );
  assert.ok(most > 0 && most <= A_TURN, `${most} of 150 followers were written to in one turn`);
  for (const client of clients) client.socket.destroy();
});

test('an event for many followers of the log is written over several turns', async () => {
  const clients = Array.from(
    { length: 80 },
    () => new WebSocket(`ws://${real.host}/v1/events?follow=1`, { headers: BEARER }),
  );
  await Promise.all(clients.map((client) => once(client, 'open')));
  const got = clients.map((client) => once(client, 'message'));
  most = 0;
  await writeRun('run_x2');
  await Promise.all(got);
  assert.ok(most > 0 && most <= A_TURN, `${most} of 80 followers were written to in one turn`);
  for (const client of clients) client.terminate();
});

test('answers with texts of runs are refused as busy while clients leave too much unread', async () => {
  await writeRun('run_x3');
  const outflow = real.unsent.enter(() => {});
  outflow.setOwnBytes(real.config.limits.unsent_bytes * 0.8);
  for (const path of [
    '/v1/runs',
    '/v1/runs/run_x3',
    '/v1/runs/run_x3/why',
    '/v1/runs/run_x3/export',
    '/v1/runs/run_x3/events',
    '/v1/runtime/state',
  ]) {
    const { status, json } = await real.get(path);
    assert.equal([path, status, json?.error?.code], [path, 429, 'busy']);
  }
  outflow.leave();
  for (const path of ['/v1/runs/run_x3/why', '/v1/runs/run_x3/export', '/v1/runtime/state'])
    assert.is((await real.get(path)).status, 200, path);
});

test.run();
