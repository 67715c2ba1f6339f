import { mkdtempSync, rmSync } from 'node:fs';
import { type IncomingMessage, request as plainRequest } from 'node:http';
import { type RequestOptions, request } from 'node:https';
import { connect as connectPlain, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import { Agent, fetch } from 'undici';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { WebSocket } from 'ws';
import type { Limits } from '../../../src/limits.ts';
import { createLog } from '../../../src/logs/log.ts';
import { ServedCertificate } from '../../../src/transport/served-certificate.ts';
import { attachSockets } from '../../../src/transport/ws/upgrade.ts';
import { type MadePair, makePair, writePair } from '../../helpers/certificate.ts';
import { silent } from '../../helpers/kernel.ts';
import { waitFor } from '../../helpers/wait.ts';
import { BEARER, type Booted, boot, closeBooted, TOKEN } from './boot.ts';

/** The HTTP listener with a certificate. */
interface Context {
  folder: string;
  pair: MadePair;
  served: ServedCertificate;
  sockets: Set<Socket>;
  /** What the log says about the files. */
  warned: string[];
  open(limits?: Partial<Limits>): Promise<Booted>;
}

const test = suite<Context>('HTTP over TLS');

const NAMES = ['localhost', 'svc.example.org'];
/** Node.js takes the name of the certificate from the Host header. */
const ANY_NAME = { checkServerIdentity: () => undefined };
const LOOK = { certificate_look_ms: 10 };

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-tls-'));
  context.pair = makePair({ names: NAMES });
  context.sockets = new Set();
  context.warned = [];
  const log = {
    ...silent,
    warn: (_: object, message: string) => void context.warned.push(message),
  };
  const served = ServedCertificate.open(writePair(context.folder, context.pair), LOOK, log);
  context.served = served as ServedCertificate;
  context.open = (limits = {}) => boot({ limits, certificate: context.served });
});

test.after.each(async ({ folder, served, sockets }) => {
  served.close();
  for (const socket of sockets) socket.destroy();
  await closeBooted();
  rmSync(folder, { recursive: true, force: true });
});

interface Answered {
  status: number;
  headers: IncomingMessage['headers'];
  text: string;
}

/** One request on a new connection, which trusts this certificate alone. */
async function ask(ca: string, url: string, options: RequestOptions, body = ''): Promise<Answered> {
  const res = await new Promise<IncomingMessage>((resolve, reject) => {
    const req = request(url, { ca, agent: false, ...options }, resolve).once('error', reject);
    req.end(body);
  });
  const text = await new Response(res as never).text();
  return { status: res.statusCode ?? 0, headers: res.headers, text };
}

/** A connection that sends these bytes without TLS, and reads. */
function raw(context: Context, port: number, bytes: Uint8Array): Socket {
  const socket = connectPlain(port, '127.0.0.1');
  context.sockets.add(socket.on('error', () => {}).resume());
  socket.write(bytes);
  return socket;
}

/** The beginning of a TLS handshake that goes no further. */
const HELLO = Uint8Array.from([0x16, 0x03, 0x01, 0x02, 0x00]);

test('a client that trusts the certificate gets answers, and one that does not gets none', async ({
  pair,
  open,
}) => {
  const http = await open();
  assert.match(http.url, /^https:\/\/127\.0\.0\.1:\d+$/);
  const dispatcher = new Agent({ connect: { ca: pair.cert } });
  const answer = await fetch(`${http.url}/v1/runs`, { headers: BEARER, dispatcher });
  assert.is(answer.status, 200);
  assert.is((await fetch(`${http.url}/v1/runs`, { dispatcher })).status, 401);
  await dispatcher.close();
  const refused = await ask(makePair().cert, `${http.url}/livez`, {}).catch((error) => error);
  assert.match(String(refused.code), /SELF_SIGNED|VERIFY|UNABLE/);
});

test('also the other loopback address has TLS', async ({ pair, open }) => {
  const http = await open();
  const { status } = await ask(pair.cert, `https://[::1]:${http.port}/livez`, {
    servername: 'localhost',
    ...ANY_NAME,
  });
  assert.is(status, 200);
});

test('Host and Origin are the names of the certificate, with its scheme', async ({
  pair,
  open,
}) => {
  const http = await open();
  const status = async (headers: Record<string, string>) =>
    (await ask(pair.cert, `${http.url}/openapi.json`, { headers, ...ANY_NAME })).status;
  const host = `svc.example.org:${http.port}`;
  assert.is(await status({ host }), 200);
  assert.is(await status({ host: `evil.example:${http.port}` }), 403);
  assert.is(await status({ host: `svc.example.org:${http.port + 1}` }), 403);
  assert.is(await status({ host, origin: `https://${host}` }), 200);
  assert.is(await status({ host, origin: `http://${host}` }), 403);
  assert.is(await status({ host, origin: `https://evil.example:${http.port}` }), 403);
});

test('a browser signs in, and its cookie is sent over TLS only', async ({ pair, open }) => {
  const http = await open();
  const headers = {
    origin: `https://localhost:${http.port}`,
    host: `localhost:${http.port}`,
    'sec-fetch-site': 'same-origin',
  };
  const signedIn = await ask(
    pair.cert,
    `${http.url}/v1/session`,
    { method: 'POST', headers: { ...headers, 'content-type': 'application/json' } },
    JSON.stringify({ token: TOKEN }),
  );
  const [cookie = ''] = signedIn.headers['set-cookie'] ?? [];
  assert.is(signedIn.status, 200, signedIn.text);
  assert.match(cookie, /; Secure$/);
  const read = await ask(pair.cert, `${http.url}/v1/runs`, {
    headers: { ...headers, cookie: cookie.split(';')[0] ?? '' },
  });
  assert.is(read.status, 200, read.text);
});

test('a WebSocket client follows the log over TLS', async ({ folder, pair, open }) => {
  const http = await open();
  const daemon = createLog({
    folder,
    level: 'info',
    limits: http.limits,
    boot_id: 'b',
    stdout: 'none',
  });
  const channel = attachSockets(http, {
    runtime: http.runtime,
    hub: daemon.hub,
    folder,
    limits: http.limits,
    log: daemon.log,
    settings: { auth: true, allowed_origins: [], http: '127.0.0.1:0' },
    token: () => TOKEN,
    sessions: { find: () => null },
  });
  const url = `wss://127.0.0.1:${http.port}/v1/logs?follow=1`;
  const client = new WebSocket(url, { ca: pair.cert, headers: BEARER });
  const first = new Promise<string>((resolve, reject) => {
    client.once('message', (data) => resolve(String(data)));
    client.once('error', reject);
  });
  await Promise.race([new Promise((resolve) => client.once('open', resolve)), first]);
  daemon.log.info({}, 'over TLS');
  assert.match(await first, 'over TLS');
  await channel.close();
  daemon.close();
});

test('a connection of the local socket needs no TLS', async ({ folder, open }) => {
  const http = await open();
  const socketPath = join(folder, 'socket');
  const local = createServer((socket) => http.accept(socket)).listen(socketPath);
  const res = await new Promise<IncomingMessage>((resolve, reject) => {
    const options = {
      socketPath,
      path: '/openapi.json',
      headers: { host: http.host },
      agent: false,
    };
    plainRequest(options, resolve).once('error', reject).end();
  });
  assert.is(res.statusCode, 403, 'no address has this Host');
  res.resume();
  await new Promise((resolve) => local.close(resolve));
});

test('a renewed certificate is served without a restart, and a bad one is not', async ({
  folder,
  pair,
  warned,
  open,
}) => {
  const http = await open();
  const fingerprint = async () => {
    const socket = connect({ port: http.port, host: '127.0.0.1', rejectUnauthorized: false });
    await new Promise((resolve, reject) =>
      socket.once('secureConnect', resolve).once('error', reject),
    );
    const { raw } = (socket as TLSSocket).getPeerCertificate();
    socket.destroy();
    return raw.toString('base64');
  };
  const inPem = ({ cert }: MadePair) => cert.replace(/-----[^-]+-----|\n/g, '');
  assert.is(await fingerprint(), inPem(pair));
  const renewed = makePair({ names: [...NAMES, 'renewed.example'] });
  // The key comes later, so for a while the pair does not match.
  writePair(folder, { cert: renewed.cert, key: pair.key });
  await waitFor('the log to say so', () => warned.length > 0);
  assert.is(await fingerprint(), inPem(pair));
  writePair(folder, renewed);
  await waitFor('the new certificate', async () => (await fingerprint()) === inPem(renewed));
  const host = `renewed.example:${http.port}`;
  assert.is((await ask(renewed.cert, `${http.url}/livez`, { headers: { host } })).status, 200);
});

test('handshakes that never end are closed in time, also when bytes trickle', async (context) => {
  const http = await context.open({ handshake_ms: 200 });
  const silent = raw(context, http.port, new Uint8Array());
  const begun = raw(context, http.port, HELLO);
  const trickle = raw(context, http.port, HELLO);
  const timer = setInterval(() => trickle.write(Uint8Array.from([0x01])), 20);
  await waitFor('all to be closed', () => [silent, begun, trickle].every((each) => each.destroyed));
  clearInterval(timer);
  const { logged } = http;
  assert.ok(logged.some(({ fields }) => 'handshake_failed' in (fields.refused as object)));
});

test('handshakes that never end do not lock out health', async (context) => {
  const http = await context.open({ connections: 4, spare_connections: 4 });
  const lines = Array.from({ length: 40 }, () => raw(context, http.port, HELLO));
  await waitFor('the oldest to make room', () => lines[0]?.destroyed);
  assert.is((await ask(context.pair.cert, `${http.url}/livez`, {})).status, 200);
  await waitFor(
    'only as many as the limits allow',
    async () => (await connectionsOf(http.server)) <= 8,
  );
});

test('HTTP without TLS gets no answer and costs nothing', async (context) => {
  const http = await context.open();
  const line = raw(context, http.port, Buffer.from('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n'));
  let received = 0;
  line.on('data', ({ length }) => {
    received += length;
  });
  await waitFor('the end', () => line.destroyed);
  // At most the alert of TLS.
  assert.ok(received < 16, `${received}`);
  await waitFor('the place to be free', async () => (await connectionsOf(http.server)) === 0);
});

test('closing ends connections in every phase', async (context) => {
  const http = await context.open({ close_grace_ms: 50 });
  const half = raw(context, http.port, HELLO);
  const idle = connect({ port: http.port, host: '127.0.0.1', rejectUnauthorized: false });
  context.sockets.add(idle.on('error', () => {}).resume());
  await new Promise((resolve) => idle.once('secureConnect', resolve));
  await http.close();
  await waitFor('both ends', () => half.destroyed && idle.destroyed);
});

function connectionsOf(server: Booted['server']): Promise<number> {
  return new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
  );
}

test.run();
