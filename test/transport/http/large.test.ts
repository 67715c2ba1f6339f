import type { Socket } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { PIECE_BYTES } from '../../../src/transport/stream/unsent-bytes.ts';
import { finish, output } from '../../helpers/scripted-provider.ts';
import { waitFor } from '../../helpers/wait.ts';
import { TOKEN, type Wire, wire } from './boot.ts';
import { bootReal, type Real } from './real.ts';

/** Large texts over HTTP from the real runtime. Unread bytes are in memory once, and counted. */
const test = suite('large answers');
const MIB = 1024 * 1024;
const CLIENTS = 8;
const PIECE = 'grüße, 😀 "so" \n'.repeat(8192);
const TEXT = PIECE.repeat(64);
let real: Real;
let id: string;
let clients: Wire[];
/** What the listener counts for each connection. */
let sockets: Set<Socket>;

test.before.each(async () => {
  [clients, sockets] = [[], new Set()];
  real = await bootReal({
    script: [...Array.from({ length: 64 }, () => output(PIECE, 1)), finish()],
    limits: { output_buffer_bytes: 64 * MIB },
  });
  real.server.on('connection', (socket: Socket) => sockets.add(socket));
  id = (await real.runtime.runs.start({ prompt: 'hello' }, 'test')).id;
  await waitFor(
    'it is settled',
    () => !real.kernel.instances.has(id) && real.runtime.status().state === 'ready',
  );
});
test.after.each(async () => {
  for (const { socket } of clients) socket.destroy();
  await real.close();
});

function askInSilence(path: string): void {
  const request = `GET ${path} HTTP/1.1\r\nHost: ${real.host}\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`;
  clients = Array.from({ length: CLIENTS }, () => wire(Number(new URL(real.url).port), request));
  for (const { socket } of clients) socket.pause();
}

const isWaiting = () =>
  sockets.size === CLIENTS && [...sockets].every(({ writableLength }) => writableLength > 0);

test('a record that many clients request and do not read is in memory once, and each connection has one piece', async () => {
  const record = Buffer.from(JSON.stringify(await real.runtime.runs.get(id)));
  askInSilence(`/v1/runs/${id}`);
  await waitFor('each waits for its client', isWaiting);
  assert.is(real.unsent.bytes, record.length);
  for (const { writableLength } of sockets)
    assert.ok(writableLength <= 2 * PIECE_BYTES, `${writableLength} bytes wait in a connection`);
  for (const { socket } of clients) socket.destroy();
  await waitFor('nothing is kept for clients that are gone', () => real.unsent.bytes === 0);
});

test('a large record is the same JSON as a small one', async () => {
  const { text, headers } = await real.get(`/v1/runs/${id}`);
  assert.ok(text === `${JSON.stringify(await real.runtime.runs.get(id))}\n`);
  assert.is(headers['content-length'], String(Buffer.byteLength(text)));
  const { json } = await real.get('/v1/runs?texts=whole');
  assert.ok(json.runs[0].output === TEXT, 'and so is a page of runs');
  assert.is((await real.get(`/v1/runs/${id}`, { method: 'HEAD' })).text, '');
});

test('the unsent bytes of an export are counted', async () => {
  askInSilence(`/v1/runs/${id}/export`);
  await waitFor('each waits for its client', isWaiting);
  assert.ok(
    real.unsent.bytes >= CLIENTS * real.config.limits.store_page_bytes,
    `${real.unsent.bytes} bytes are counted`,
  );
  for (const { socket } of clients) socket.destroy();
  await waitFor('nothing is kept for clients that are gone', () => real.unsent.bytes === 0);
  assert.ok((await real.get(`/v1/runs/${id}/export`)).text.includes('"digest":'));
});

test.run();
