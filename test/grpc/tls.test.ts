import { mkdtempSync, rmSync } from 'node:fs';
import { connect as connectPlain, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { credentials, status } from '@grpc/grpc-js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Limits } from '../../src/limits.ts';
import { ServedCertificate } from '../../src/transport/served-certificate.ts';
import { type MadePair, makePair, writePair } from '../helpers/certificate.ts';
import { silent } from '../helpers/kernel.ts';
import { waitFor } from '../helpers/wait.ts';
import { healthClient, type Served, serve } from './boot.ts';

/** The gRPC listener with a certificate. */
interface Context {
  folder: string;
  pair: MadePair;
  served: ServedCertificate;
  sockets: Set<Socket>;
  open(limits?: Partial<Limits>): Promise<Served>;
  grpc: Served | null;
}

const test = suite<Context>('gRPC over TLS');

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-tls-'));
  context.pair = makePair();
  context.sockets = new Set();
  const look = { certificate_look_ms: 10 };
  const served = ServedCertificate.open(writePair(context.folder, context.pair), look, silent);
  context.served = served as ServedCertificate;
  context.grpc = null;
  context.open = async (limits = {}) => {
    context.grpc = await serve({ limits, certificate: context.served });
    return context.grpc;
  };
});

test.after.each(async ({ folder, served, sockets, grpc }) => {
  served.close();
  for (const socket of sockets) socket.destroy();
  await grpc?.close();
  rmSync(folder, { recursive: true, force: true });
});

const trusting = ({ cert }: MadePair) => credentials.createSsl(Buffer.from(cert));
const local = ({ address }: Served) => address.replace('127.0.0.1', 'localhost');

/** The beginning of a TLS handshake that goes no further. */
function hang({ sockets }: Context, { address }: Served): Socket {
  const socket = connectPlain(Number(address.split(':').at(-1)), '127.0.0.1');
  sockets.add(socket.on('error', () => {}).resume());
  socket.write(Uint8Array.from([0x16, 0x03, 0x01, 0x02, 0x00]));
  return socket;
}

test('a client with the certificate as its root is served, and others are not', async ({
  pair,
  open,
}) => {
  const grpc = await open();
  const ask = async (by: Parameters<typeof healthClient>[1]) => {
    const client = healthClient(local(grpc), by);
    const answer = await client.check('svc.livez');
    client.close();
    return answer;
  };
  assert.is(await ask(trusting(pair)), 'SERVING');
  assert.is(await ask(trusting(makePair())), status.UNAVAILABLE);
  assert.is(await ask(credentials.createInsecure()), status.UNAVAILABLE);
});

test('a renewed certificate is served, and open streams stay', async ({ folder, pair, open }) => {
  const grpc = await open();
  const before = healthClient(local(grpc), trusting(pair));
  const stream = before.watch('svc.livez');
  await waitFor('the first state', () => stream.seen.length === 1);
  const renewed = makePair();
  writePair(folder, renewed);
  await waitFor('the new certificate', async () => {
    const after = healthClient(local(grpc), trusting(renewed));
    const answer = await after.check('svc.livez');
    after.close();
    return answer === 'SERVING';
  });
  assert.is(await before.check('svc.livez'), 'SERVING');
  stream.cancel();
  before.close();
});

test('handshakes that never end are closed in time, and lock out no probe', async (context) => {
  const grpc = await context.open({ connections: 4, spare_connections: 36, handshake_ms: 500 });
  const lines = Array.from({ length: 41 }, () => hang(context, grpc));
  await waitFor('the oldest to make room', () => lines[0]?.destroyed);
  const client = healthClient(local(grpc), trusting(context.pair));
  assert.is(await client.check('svc.livez'), 'SERVING');
  await waitFor('all to be closed', () => lines.every((line) => line.destroyed));
  assert.is(await client.check('svc.livez'), 'SERVING');
  client.close();
});

test('a client that speaks no HTTP/2 is disconnected', async (context) => {
  const grpc = await context.open();
  const port = Number(grpc.address.split(':').at(-1));
  const options = { port, host: '127.0.0.1', rejectUnauthorized: false };
  const wrong = connect({ ...options, ALPNProtocols: ['http/1.1'] }).on('error', () => {});
  const none = connect(options).on('error', () => {});
  for (const socket of [wrong, none]) context.sockets.add(socket.resume());
  none.once('secureConnect', () => none.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'));
  await waitFor('both to be closed', () => wrong.destroyed && none.destroyed);
});

test.run();
