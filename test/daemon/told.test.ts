import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ReportRecord } from '../../src/runtime/contract.ts';
import { type ControlClient, connect } from '../../src/transport/control/client.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { isReady, serve } from './process.ts';

const test = suite<{ home: Home; client: ControlClient; out(): string }>(
  'what a daemon tells of itself',
);

/** The whole report, with the token. */
async function report(client: ControlClient): Promise<ReportRecord> {
  const { addresses } = await client.call('status');
  const { token } = await client.call('token');
  return (
    await fetch(`${addresses.http}/v1/runtime/health`, {
      headers: { authorization: `Bearer ${token}` },
    })
  ).json() as Promise<ReportRecord>;
}

test.before(async (context) => {
  context.home = makeHome({ SVC_HISTORY_REDACT: '["svc\\\\.sock"]' });
  const daemon = serve(context.home, 'none');
  context.out = daemon.out;
  await waitFor('the daemon is ready', isReady(daemon), { within_ms: 50_000 });
  context.client = await connect(context.home.paths.socket);
});
test.after(async ({ home, client }) => {
  client.close();
  await home.close();
});

test('the log has the size of its files as they are, not as they were at the start', async ({
  home,
  client,
}) => {
  const onDisk = () =>
    [home.paths.database, `${home.paths.database}-wal`].reduce(
      (bytes, file) => bytes + statSync(file).size,
      0,
    );
  await waitFor(
    'both tell the same',
    async () => (await report(client)).log.size_bytes === onDisk(),
  );
});

test('the first address that is recorded is the one that there was: the socket came later', async ({
  client,
}) => {
  const { boot_id } = await client.call('status');
  const { events } = await client.call('log.stream', {
    stream: `daemon:${boot_id}`,
    from_version: 1,
    limit: 10,
  });
  const told = events
    .filter(({ type }) => type === 'daemon.listening')
    .map(({ data }) => (data.addresses as { socket: string | null }).socket);
  assert.is(told.length, 2);
  assert.is(told[0], null);
  assert.ok(told[1]);
});

test('what the history leaves out is in no line of its log either', ({ home, out }) => {
  for (const text of [out(), readFileSync(join(home.paths.logs, 'svc.log'), 'utf8')]) {
    assert.match(text, /\[redacted\]/);
    assert.not.match(text, /svc\.sock/);
  }
});

test.run();
