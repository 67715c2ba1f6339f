import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { waitFor } from '../helpers/wait.ts';
import { healthClient, type Served, serve } from './boot.ts';

/** Calls that need no token are bounded in their sum, and a probe always gets its answer. */

const LIMIT = 10;
let grpc: Served;
let sessions: ClientHttp2Session[] = [];

test.before.each(async () => {
  grpc = await serve({ limits: { public_calls: LIMIT } });
});
test.after.each(async () => {
  for (const session of sessions) session.destroy();
  sessions = [];
  await grpc.close();
});

function session(): ClientHttp2Session {
  const opened = connect(`http://${grpc.address}`);
  opened.on('error', () => {});
  sessions.push(opened);
  return opened;
}

/** A call whose message never comes, with as much metadata as is allowed. */
function silentCall(on: ClientHttp2Session): ClientHttp2Stream {
  const stream = on.request({
    ':method': 'POST',
    ':path': '/grpc.health.v1.Health/Watch',
    'content-type': 'application/grpc',
    te: 'trailers',
    'x-large': 'x'.repeat(4000),
  });
  stream.on('error', () => {});
  stream.write(Buffer.from([0]));
  return stream;
}

test('silent calls over many connections are ended, the oldest first, and a probe is answered', async () => {
  const all: { stream: ClientHttp2Stream; status: string | null; closed: boolean }[] = [];
  for (let count = 0; count < 5; count += 1) {
    const on = session();
    for (let call = 0; call < 8; call += 1) {
      const each = { stream: silentCall(on), status: null as string | null, closed: false };
      each.stream.on('response', (headers) => {
        each.status = String(headers['grpc-status']);
      });
      each.stream.on('close', () => {
        each.closed = true;
      });
      all.push(each);
    }
    await waitFor('they have arrived', () => {
      const over = Math.max(0, all.length - LIMIT);
      return all.filter(({ closed }) => closed).length === over;
    });
  }
  const over = all.length - LIMIT;
  assert.equal(
    all.map(({ closed }) => closed),
    all.map((_, index) => index < over),
  );
  for (const { status } of all.slice(0, over)) assert.is(status, '8', 'RESOURCE_EXHAUSTED');
  const client = healthClient(grpc.address);
  for (let count = 0; count < 2 * LIMIT; count += 1) assert.is(await client.check(''), 'SERVING');
  client.close();
});

test('a watcher that was replaced learns why, and can watch again', async () => {
  const client = healthClient(grpc.address);
  const first = client.watch('');
  await waitFor('its first status', () => first.seen.length > 0);
  const on = session();
  for (let call = 0; call < LIMIT; call += 1) silentCall(on);
  assert.is(await first.ended, 8);
  const again = client.watch('');
  await waitFor('its status', () => again.seen.length > 0);
  again.cancel();
  client.close();
});

test.run();
