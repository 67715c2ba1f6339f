import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Notifier } from '../../../src/async/notifier.ts';
import { endBlockedStop } from '../../../src/daemon/boot.ts';
import { SvcError } from '../../../src/errors.ts';
import { DiskMonitor } from '../../../src/runtime/disk/disk-monitor.ts';
import { eventData } from '../../../src/transport/stream/event-forms.ts';
import { gatedStore, silent } from '../../helpers/kernel.ts';
import { bootRuntime } from '../../helpers/runtime.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { turns } from '../../helpers/turns.ts';

const codeOf = (work: Promise<unknown>) =>
  work.then(() => null).catch((error: SvcError) => error.code);

const firstOf = async (records: AsyncIterable<unknown>) => {
  for await (const record of records) return record;
  return null;
};

async function boot() {
  const reads = { hang: false };
  const gated = gatedStore(createMemoryStore());
  const store = {
    ...gated,
    getRun: (id: string) => (reads.hang ? new Promise<never>(() => {}) : gated.getRun(id)),
  };
  const local = new ScriptedProvider('local', [output('hello'), finish()]);
  const remote = { far: { port: new ScriptedProvider('far', []), kind: 'local' as const } };
  const booted = await bootRuntime({ local, store, remote });
  const { kernel, clock, daemon, config } = booted;
  new DiskMonitor({ kernel, store, clock, daemon, log: silent });
  const ended: (string | null)[] = [];
  const stopRequests = new Notifier<number>();
  endBlockedStop(
    { ...booted, stopRequests, log: silent as never },
    (failure) => ended.push(failure?.code ?? null),
    new AbortController().signal,
  );
  const run = async (prompt: string, key: string | null = null) => {
    const { id } = await booted.runtime.runs.start({ prompt, idempotency_key: key }, 'test');
    for await (const _ of booted.runtime.runs.follow(id, {
      form: eventData,
      signal: new AbortController().signal,
    }));
    return booted.runtime.runs.get(id);
  };
  return {
    ...booted,
    store,
    reads,
    local,
    ended,
    run,
    hang: async () => {
      store.hold();
      const waiting = codeOf(
        booted.runtime.runs.start({ prompt: 'finds it', idempotency_key: 'key' }, 'test'),
      );
      await turns();
      clock.advance(config.limits.commit_late_ms);
      await turns();
      return waiting;
    },
    stop: async (mode: 'drain' | 'force') => {
      const position = await booted.runtime.lifecycle({ type: 'stop_requested', mode }, 'test');
      stopRequests.notify(0);
      await turns();
      return position;
    },
    pass: async (ms: number) => {
      clock.advance(ms);
      await turns();
    },
  };
}

test('a daemon with a late commit is alive and not ready: it refuses requests at once and continues when the disk answers', async () => {
  const { runtime, clock, store, local, hang, run, daemon } = await boot();
  const before = await run('before');
  assert.is(await hang(), 'store_stalled');
  const stalled_at = clock.now();
  assert.equal(runtime.probe(), { live: true, ready: false });
  const { state_path, status, reason, ready_when, since } = runtime.report();
  assert.equal(
    [state_path, status, ready_when],
    ['running.disk_stalled', 'fail', 'the event log can be written again'],
  );
  assert.is(Date.parse(since), stalled_at);
  assert.match(reason ?? '', /disk does not answer/);
  const asked = store.appends.length;
  for (const ask of [
    () => runtime.runs.start({ prompt: 'x' }, 'test'),
    () => runtime.runs.start({ prompt: 'x', idempotency_key: 'other' }, 'test'),
    () => runtime.runs.get(before.id),
    () => runtime.runs.list({}),
    () => runtime.runs.cancel(before.id, 'test'),
    () => runtime.history.whyRun(before.id),
    () => runtime.providers.add({ id: 'new', base_url: 'http://127.0.0.1:9/v1' }),
    () => runtime.providers.remove('far'),
    () => runtime.models.remove('local/x'),
    () => runtime.pulls.cancel('pull_x', 'test'),
    () =>
      firstOf(
        runtime.pulls.pull(
          { reference: 'http://127.0.0.1:9/x.gguf', name: null, sha256: null },
          'test',
          new AbortController().signal,
        ),
      ),
  ])
    assert.is(await codeOf(ask()), 'store_stalled');
  assert.is(store.appends.length, asked);

  clock.advance(60_000);
  store.release();
  await turns(30);
  assert.equal(runtime.probe(), { live: true, ready: true });
  const events = (await store.readStream(daemon, 1, 100)).filter(({ type }) =>
    type.startsWith('daemon.disk_'),
  );
  assert.equal(
    events.map(({ type, at }) => [type, at - stalled_at]),
    [
      ['daemon.disk_stalled', 0],
      ['daemon.disk_resumed', 60_000],
    ],
  );
  const { runs } = await runtime.runs.list({});
  assert.is(runs.find(({ prompt }) => prompt === 'finds it')?.state, 'cancelled');
  assert.is(local.asked.length, 1);
  assert.is((await run('finds it', 'key')).output, 'hello');
});

test('a read that waits when the disk stops answering is refused too', async () => {
  const { runtime, reads, hang, run } = await boot();
  const { id } = await run('before');
  reads.hang = true;
  const reading = codeOf(runtime.runs.get(id));
  await hang();
  assert.is(await reading, 'store_stalled');
});

test('a disk that blocks the thread of the log without a commit is noticed by a read', async () => {
  const { runtime, reads, store, clock, config, daemon, run } = await boot();
  const { id } = await run('before');
  // Old runs are removed: the thread answers nothing, and no commit is late.
  reads.hang = true;
  store.hold();
  const reading = codeOf(runtime.runs.get(id));
  await turns();
  clock.advance(config.limits.commit_late_ms);
  assert.is(await reading, 'store_stalled');
  assert.equal(
    [runtime.report().state_path, await codeOf(runtime.runs.start({ prompt: 'x' }, 'test'))],
    ['running.disk_stalled', 'store_stalled'],
  );
  reads.hang = false;
  store.release();
  await turns(30);
  assert.equal(runtime.probe(), { live: true, ready: true });
  const { type } = (await store.readStream(daemon, 1, 100)).at(-1) ?? {};
  assert.is(type, 'daemon.disk_resumed');
});

test('a provider change or a pull that waits for a silent disk is refused; the change takes effect when the disk answers', async () => {
  const { runtime, store, clock, config } = await boot();
  store.hold();
  const pulling = new AbortController();
  const waiting = [
    runtime.providers.add({ id: 'new', base_url: 'http://127.0.0.1:9/v1' }),
    runtime.providers.remove('far'),
    firstOf(
      runtime.pulls.pull(
        { reference: 'http://127.0.0.1:9/x.gguf', name: null, sha256: null },
        'test',
        pulling.signal,
      ),
    ),
  ].map(codeOf);
  await turns();
  clock.advance(config.limits.commit_late_ms);
  assert.equal(await Promise.all(waiting), ['store_stalled', 'store_stalled', 'store_stalled']);
  store.release();
  await turns(30);
  assert.equal(
    runtime.providers.list().map(({ id }) => id),
    ['local', 'new'],
  );
});

test('a change of the providers is refused on a disk without any space', async () => {
  const { runtime, store } = await boot();
  store.failWith(new SvcError('store_full'));
  assert.is(
    await codeOf(runtime.providers.add({ id: 'new', base_url: 'http://127.0.0.1:9/v1' })),
    'store_full',
  );
  assert.is(await codeOf(runtime.providers.remove('far')), 'store_full');
});

for (const mode of ['drain', 'force'] as const)
  test(`a stop (${mode}) does not wait for a silent disk, and reports that`, async () => {
    const { hang, stop, pass, ended, config, runtime } = await boot();
    await hang();
    assert.match((await stop(mode)).state_path, /^stopping\./);
    await pass(config.limits.stop_blocked_ms - 1);
    assert.equal(ended, []);
    await pass(1);
    assert.equal(ended, ['store_stalled']);
    assert.is(runtime.probe().live, true);
  });

test('a stop that the disk delays continues normally when the disk answers in time', async () => {
  const { hang, stop, pass, ended, config, store, closed, kernel, daemon } = await boot();
  await hang();
  await stop('force');
  await pass(config.limits.stop_blocked_ms - 1);
  store.release();
  await turns(30);
  await pass(config.limits.stop_blocked_ms);
  assert.equal(ended, []);
  assert.is(closed.length, 1);
  assert.ok(kernel.snapshot(daemon)?.matches({ stopping: 'closing' }));
});

test('on a disk without any space a stop ends soon, and hands over the accepted runs', async () => {
  const { runtime, store, stop, pass, ended, config, run } = await boot();
  await run('before');
  store.failWith(new SvcError('store_full'));
  assert.is(await codeOf(runtime.runs.start({ prompt: 'x' }, 'test')), 'store_full');
  await stop('drain');
  await pass(config.limits.stop_blocked_ms);
  assert.equal(ended, [null]);
  assert.equal(await runtime.stopped(), { finished: 0, handed_over: 0, ended: 0 });
});

test('a run with a commit of unknown outcome can be sent again with its key, and the next request is refused as failed', async () => {
  const { runtime, store } = await boot();
  store.failWith(new SvcError('store_failed'));
  const error = await runtime.runs.start({ prompt: 'x', idempotency_key: 'k' }, 'test').then(
    () => null,
    (thrown: SvcError) => thrown,
  );
  assert.is(error?.code, 'run_unconfirmed');
  assert.is(error?.body().retryable, true);
  assert.match(error?.body().hint ?? '', /same idempotency key/);
  assert.is(await codeOf(runtime.runs.start({ prompt: 'y' }, 'test')), 'store_failed');
});

test.run();
