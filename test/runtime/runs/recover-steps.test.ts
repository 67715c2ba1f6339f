import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { DaemonSnapshot } from '../../../machines/daemon/chart.ts';
import { OutputBudget } from '../../../src/runtime/runs/output-recorder.ts';
import { recoverRuns } from '../../../src/runtime/runs/recover.ts';
import { Scheduler } from '../../../src/runtime/runs/scheduler.ts';
import type { EventStore } from '../../../src/store/port.ts';
import { bootStarted } from '../../helpers/boot-event.ts';
import { accepted, bootKernel, silent } from '../../helpers/kernel.ts';
import { createMemoryStore } from '../../helpers/store/memory.ts';

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
  const recover = (step_runs: number) =>
    recoverRuns(kernel, store, scheduler, {
      step_runs,
      made: async (runs) => {
        steps.push(runs);
        if (!(await kernel.tryAppend(DAEMON, { type: 'daemon.recovery_progressed', runs })))
          throw new Error('the start is over');
      },
    });
  return {
    kernel,
    store,
    scheduler,
    recover,
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

test.run();
