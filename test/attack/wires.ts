import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { waitFor } from '../helpers/wait.ts';

/** A bare connection of an attacker. What it receives is kept as text, up to a bound. */
export interface AttackWire {
  socket: Socket;
  received(): string;
  isClosed(): boolean;
}

const KEPT_MAX = 64 * 1024;

/** A connection that is established, or was refused. */
export async function openWire(port: number, { deaf = false } = {}): Promise<AttackWire> {
  const socket = connect({ port, host: '127.0.0.1' });
  let received = '';
  let closed = false;
  socket.setEncoding('latin1');
  socket.on('data', (text) => {
    received = (received + text).slice(0, KEPT_MAX);
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    closed = true;
  });
  if (deaf) socket.pause();
  await once(socket, 'connect').catch(() => {});
  return { socket, received: () => received, isClosed: () => closed };
}

/** Connections, so many at one time that the listener's queue of the system holds them. */
export async function openWires(
  port: number,
  count: number,
  options: { deaf?: boolean } = {},
): Promise<AttackWire[]> {
  const wires: AttackWire[] = [];
  while (wires.length < count)
    wires.push(
      ...(await Promise.all(
        Array.from({ length: Math.min(50, count - wires.length) }, () => openWire(port, options)),
      )),
    );
  return wires;
}

export function closeWires(wires: readonly AttackWire[]): void {
  for (const { socket } of wires) socket.destroy();
}

/** Repeats a step until the time is over; a step that fails ends it. */
export async function repeatFor(
  total_ms: number,
  every_ms: number,
  step: () => Promise<void> | void,
): Promise<void> {
  const end = performance.now() + total_ms;
  while (performance.now() < end) {
    await step();
    await sleep(every_ms);
  }
}

/** Sends and waits for what the answer must hold; throws with what came instead. */
export async function askOn(wire: AttackWire, text: string, expected: RegExp): Promise<string> {
  wire.socket.write(text);
  await waitFor(
    `an answer with ${expected}`,
    () => expected.test(wire.received()) || wire.isClosed(),
  );
  if (!expected.test(wire.received()))
    throw new Error(
      `The connection was closed; it had received ${JSON.stringify(wire.received().slice(0, 200))}.`,
    );
  return wire.received();
}
