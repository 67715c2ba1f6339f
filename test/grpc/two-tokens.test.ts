import { connect, type Socket } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createGrpc } from '../../src/grpc/server.ts';
import { defaultLimits } from '../../src/limits.ts';
import { createTokenAccess } from '../../src/transport/auth/token-access.ts';
import { UnsentBytes } from '../../src/transport/stream/unsent-bytes.ts';
import { fakeRuntime } from '../helpers/fake-runtime.ts';
import { silent } from '../helpers/kernel.ts';
import { waitFor } from '../helpers/wait.ts';
import { TOKEN } from './boot.ts';

/** Frames of HTTP/2, by hand: no library sends the header twice. */
const [DATA, HEADERS, SETTINGS] = [0, 1, 4];
const [END_STREAM, END_HEADERS] = [1, 4];

function frame(type: number, flags: number, stream: number, payload = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

function field(...texts: string[]): Buffer {
  const parts = texts.flatMap((text) => [Buffer.from([text.length]), Buffer.from(text)]);
  return Buffer.concat([Buffer.from([0x10]), ...parts]);
}

/** Calls `Models` with these tokens. */
function call(port: number, ...tokens: string[]): Socket {
  const block = Buffer.concat([
    // POST and http are in the table of the protocol.
    Buffer.from([0x83, 0x86]),
    field(':authority', 'localhost'),
    field(':path', '/svc.runtime.v1.Runtime/Models'),
    field('content-type', 'application/grpc'),
    field('te', 'trailers'),
    ...tokens.map((token) => field('authorization', `Bearer ${token}`)),
  ]);
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {}).resume();
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  socket.write(frame(SETTINGS, 0, 0));
  socket.write(frame(HEADERS, END_HEADERS, 1, block));
  socket.write(frame(DATA, END_STREAM, 1, Buffer.alloc(5)));
  return socket;
}

test('a call with two different Authorization headers has no token', async () => {
  const runtime = fakeRuntime();
  runtime.bring('ready');
  const refused: string[] = [];
  const grpc = createGrpc({
    runtime,
    limits: defaultLimits,
    log: silent,
    certificate: null,
    unsent: new UnsentBytes(defaultLimits, silent),
    access: createTokenAccess({ settings: { auth: true }, token: () => TOKEN }),
    onRefused: (code) => refused.push(code),
  });
  const port = Number((await grpc.listen('127.0.0.1', 0)).split(':')[1]);
  const sockets: Socket[] = [];
  const calls = () => runtime.calls.filter((name) => name === 'models.list').length;
  try {
    for (const both of [
      [TOKEN, 'another'],
      ['another', TOKEN],
    ]) {
      const before = refused.length;
      sockets.push(call(port, ...both));
      await waitFor('it is refused', () => refused.length > before);
    }
    assert.equal([refused, calls()], [['unauthorised', 'unauthorised'], 0]);
    sockets.push(call(port, TOKEN, TOKEN));
    await waitFor('it is answered', () => calls() === 1);
  } finally {
    for (const socket of sockets) socket.destroy();
    await grpc.close();
  }
});

test.run();
