import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { DaemonSnapshot } from '../../../machines/daemon/chart.ts';
import { SvcError } from '../../../src/errors.ts';
import type { EventStore } from '../../../src/kernel/store/port.ts';
import type { RunKey } from '../../../src/kernel/stream.ts';
import { OneDaemon } from '../../../src/runtime/placement.ts';
import { OutputBudget } from '../../../src/runtime/runs/output-recorder.ts';
import { type RecoveryProgress, recoverRuns } from '../../../src/runtime/runs/recover.ts';
import { Scheduler } from '../../../src/runtime/runs/scheduler.ts';
import { bootStarted } from '../../helpers/boot-event.ts';
import { accepted, bootKernel, silent } from '../../helpers/kernel.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';
import { codeOf } from '../../helpers/wait.ts';

const RUNS = 60;
const START_MS = 3_000;
const DAEMON = 'daemon:boot_2';

/**
 * A boot that finds many runs on a slow disk. To recover all of them takes twice the time of a
 * start.
 */
async function boot() {
  const inner = createMemoryStore();
  const before = await bootKernel({ store: inner });
  for (let index = 0; index < RUNS; index += 1)
    await before.kernel.append([
      accepted(`run_${index + 100}`, before.clock.now(), {
        queue_deadline_at: 1e12,
        deadline_at: 1e12,
      }),
    ]);
  before.kernel.close();
  const read_ms = (2 * START_MS) / RUNS;
  const slow: EventStore = {
    ...inner,
    readStream: (stream, ...rest) => {
      if (stream.startsWith('run_')) clock.advance(read_ms);
      return inner.readStream(stream, ...rest);
    },
  };
  const { kernel, store, clock } = await bootKernel({ store: slow, boot_id: 'boot_2' });
  await kernel.append([
    { stream: DAEMON, event: bootStarted('boot_2', 2 * RUNS, clock.now() + START_MS) },
  ]);
  await kernel.tryAppend(DAEMON, {
    type: 'daemon.listening',
    addresses: { http: null, grpc: null, socket: null },
  });
  await kernel.tryAppend(DAEMON, { type: 'daemon.store_opened', last_boot: null });
  const scheduler = new Scheduler({
    kernel,
    daemon: DAEMON,
    outputs: new OutputBudget(1e6),
    concurrency: { total: 1, perProvider: 1, local: 1, ofProvider: () => undefined },
    log: silent,
  });
  const steps: number[] = [];
  let rest = async () => {};
  const later = (recoverQueue: typeof rest) => {
    rest = recoverQueue;
  };
  const recover = (step_runs: number, more: Partial<RecoveryProgress> = {}) =>
    recoverRuns(kernel, store, scheduler, {
      step_runs,
      made: async (runs) => {
        steps.push(runs);
        if (!(await kernel.tryAppend(DAEMON, { type: 'daemon.recovery_progressed', runs })))
          throw new Error('the start is over');
      },
      ...more,
    });
  return {
    kernel,
    store,
    scheduler,
    recover,
    recoverLater: () => recover(10, { later, made: async (runs) => void steps.push(runs) }),
    recoverQueue: () => rest(),
    steps,
    daemon: () => kernel.snapshot(DAEMON) as DaemonSnapshot,
  };
}

test('a recovery with progress in each step may take longer than the time of a start, and keeps the order', async () => {
  const { recover, steps, daemon, scheduler } = await boot();
  const found = await recover(10);
  assert.equal(steps, [10, 20, 30, 40, 50]);
  assert.equal(found, { queued: RUNS, suspended: 0, ended: 0 });
  assert.ok(daemon().matches({ starting: 'recovering' }));
  assert.equal(
    scheduler.waitingRuns(),
    Array.from({ length: RUNS }, (_, index) => `run_${index + 100}`),
  );
});

test('a step that takes longer than that time ends the start, and the steps before it are durable', async () => {
  const { recover, daemon, store } = await boot();
  const whole = await recover(40).catch(() => null);
  assert.is(whole, null);
  assert.ok(daemon().matches('failed'));
  assert.is(daemon().context.error?.code, 'start_timed_out');
  assert.equal(
    (await store.readStream('run_139', 1, 10)).map(({ type }) => type),
    ['run.accepted', 'run.recovered'],
  );
  assert.is((await store.readStream('run_140', 1, 10)).length, 1);
});

test('a start reads no run of a long queue, and what asks for one of them waits until it is recovered', async () => {
  const { kernel, store, scheduler, recoverLater, recoverQueue, steps, daemon } = await boot();
  const before = kernel.clock.now();
  const found = await recoverLater();
  assert.is(kernel.clock.now(), before, 'each read takes time');
  assert.equal(found, { queued: RUNS, suspended: 0, ended: 0 });
  await kernel.tryAppend(DAEMON, { type: 'daemon.runs_recovered', ...found });
  await kernel.tryAppend(DAEMON, { type: 'daemon.providers_probed' });
  assert.ok(daemon().hasTag('ready'));
  const isThere = (run_id: string) => kernel.instance(run_id as RunKey) !== undefined;
  assert.equal([scheduler.queued, isThere('run_100')], [RUNS, false]);
  scheduler.next();
  assert.is(scheduler.running, 0, 'nothing starts out of turn');
  const one = new OneDaemon(kernel, scheduler.unrecovered, store);
  const record = await one.record('run_159');
  assert.equal([record.id, record.state, isThere('run_159')], ['run_159', 'queued', false]);
  assert.is(await codeOf(one.record('run_999')), 'not_ready');
  assert.is(await codeOf(one.awaitAbsent('run_999')), 'not_ready');
  const asked = [one.awaitAbsent('run_159'), one.cancel('run_159' as RunKey), one.whenRecovered()];
  const answered = asked.map((answer) => answer.then(() => isThere('run_159')));
  await recoverQueue();
  assert.equal(await Promise.all(answered), [true, true, true]);
  assert.equal(steps, [10, 20, 30, 40, 50]);
  assert.equal(scheduler.activeRuns(), ['run_100']);
  assert.equal(
    scheduler.waitingRuns(),
    Array.from({ length: RUNS - 1 }, (_, index) => `run_${index + 101}`),
  );
  assert.is(daemon().context.unsettled, RUNS);
});

test('a daemon that stops before the queue is recovered leaves the rest to the next start', async () => {
  const { store, scheduler, recover } = await boot();
  let rest = async () => {};
  await recover(10, {
    later: (recoverQueue) => {
      rest = recoverQueue;
    },
    made: () => Promise.reject(new SvcError('daemon_stopping')),
  });
  const one = new OneDaemon({ durableSeq: 0, subscribe() {} }, scheduler.unrecovered, store);
  const waits = one.awaitAbsent('run_159');
  assert.is(await codeOf(rest()), 'daemon_stopping');
  await waits;
  assert.equal([scheduler.queued, scheduler.unrecovered.size], [10, 0]);
  assert.is((await store.unfinishedRuns('queued')).length, RUNS);
});

test.run();
