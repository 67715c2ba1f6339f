import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ownerOf, type RuntimeFile } from '../../src/home/runtime-file.ts';
import { runtimeOf } from '../helpers/daemon.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { possible } from '../kernel/store/inject.ts';
import { silence } from '../torture/disk.ts';

const test = suite<{ home: Home; release(): Promise<void> }>(
  'a disk that does not answer, and the built daemon',
);
const faulty = possible ? test : test.skip;
if (!possible) console.log('skipped: a disk cannot be silenced here');

// One home for all: a test goes on with the daemon that the one before has left.
test.before((context) => {
  context.home = makeHome({ SVC_LIMIT_COMMIT_LATE_MS: '300', SVC_LIMIT_STOP_BLOCKED_MS: '500' });
});
// A tracer that is left keeps this process.
test.after.each(async ({ release }) => release?.());
test.after(({ home }) => home.close());

/** A daemon with one late commit: that of the run with this key. */
async function stalled(context: { home: Home; release(): Promise<void> }, idempotency_key: string) {
  const { home } = context;
  const started = await home.svc(['start']);
  assert.is(started.code, 0, started.stderr);
  const runtime = await runtimeOf(home);
  const token = (await home.svc(['token'])).stdout.trim();
  const { http } = runtime.addresses;
  const post = (body: object) =>
    fetch(`${http}/v1/runs`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const ready = async () =>
    (await fetch(`${http}/readyz`)).json() as Promise<{
      state_path: string;
      reason: string | null;
    }>;
  const release = await silence(runtime.pid);
  context.release = release;
  const first = await post({ prompt: 'What is svc?', idempotency_key });
  return { runtime, post, ready, release, first };
}

const isGone = (file: RuntimeFile) => ownerOf(file) !== 'ours';

faulty(
  'health says so, requests are refused at once, and with the disk all comes back',
  async (context) => {
    const { home } = context;
    const { post, ready, release, first } = await stalled(context, 'first');
    assert.is(first.status, 503);
    const { state_path, reason } = await ready();
    assert.is(state_path, 'running.disk_stalled');
    assert.match(reason ?? '', /disk does not answer/);
    const next = await post({ prompt: 'What is svc?' });
    assert.is(next.status, 503);
    assert.ok(Number(next.headers.get('retry-after')) >= 1);
    assert.is(((await next.json()) as { error: { code: string } }).error.code, 'store_stalled');
    const doctor = await home.svc(['doctor']);
    assert.is(doctor.code, 1, doctor.stdout);
    assert.match(doctor.stdout, /fail\s+daemon\s+disk takes no writes for .*disk does not answer/);
    await release();
    await waitFor('it is ready again', async () => (await ready()).state_path === 'ready');
    assert.is((await post({ prompt: 'What is svc?', idempotency_key: 'first' })).status, 202);
    const { stdout } = await home.svc(['status', '--why']);
    assert.match(stdout, /daemon\.disk_stalled.*daemon\.disk_resumed/s);
  },
);

faulty(
  'svc stop ends the process and says why the log does not hold the stop; the next start is whole',
  async (context) => {
    const { home } = context;
    const { runtime, release } = await stalled(context, 'second');
    const stop = await home.svc(['stop']);
    assert.is(stop.code, 4, stop.stderr);
    assert.match(
      stop.stderr,
      /The disk does not answer: the event log does not say that the daemon stopped/,
    );
    assert.ok(isGone(runtime));
    await release();
    assert.is((await home.svc(['start'])).code, 0);
  },
);

faulty('SIGTERM ends it too', async (context) => {
  const { runtime, release } = await stalled(context, 'third');
  process.kill(runtime.pid, 'SIGTERM');
  await waitFor('the process is gone', () => isGone(runtime));
  await release();
});

test.run();
