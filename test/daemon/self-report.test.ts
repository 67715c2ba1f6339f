import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ReportRecord } from '../../src/contract/contract.ts';
import { type ControlClient, connect } from '../../src/transport/control/client.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { isReady, serve } from './process.ts';

const test = suite<{ home: Home; client: ControlClient; out(): string }>(
  'the report of a daemon about itself',
);

/** The whole health report, read with the token. */
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

test('the report has the present size of the log files', async ({ home, client }) => {
  const onDisk = () =>
    [home.paths.database, `${home.paths.database}-wal`].reduce(
      (bytes, file) => bytes + statSync(file).size,
      0,
    );
  await waitFor(
    'both sizes are equal',
    async () => (await report(client)).log.size_bytes === onDisk(),
  );
});

test('the first recorded addresses have no socket, the second ones do', async ({ client }) => {
  const { boot_id } = await client.call('status');
  const { events } = await client.call('log.stream', {
    stream: `daemon:${boot_id}`,
    from_version: 1,
    limit: 10,
  });
  const sockets = events
    .filter(({ type }) => type === 'daemon.listening')
    .map(({ data }) => (data.addresses as { socket: string | null }).socket);
  assert.is(sockets.length, 2);
  assert.is(sockets[0], null);
  assert.ok(sockets[1]);
});

test('the log file redacts what the history redacts', ({ home, out }) => {
  for (const text of [out(), readFileSync(join(home.paths.logs, 'svc.log'), 'utf8')]) {
    assert.match(text, /\[redacted\]/);
    assert.not.match(text, /svc\.sock/);
  }
});

test.run();
