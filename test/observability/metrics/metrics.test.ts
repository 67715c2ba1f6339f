import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ReportRecord } from '../../../src/contract/contract.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { Metrics } from '../../../src/observability/metrics/metrics.ts';
import type { Scheduler } from '../../../src/runtime/runs/scheduler.ts';
import { figureOf, parseMetrics } from '../../helpers/prometheus.ts';

/** A daemon with a different number in each place. */
const report = {
  version: '1.2.3',
  state_path: 'ready.idle',
  runs: { active: 2, queued: 3, finished: 5 },
  queue: { capacity: 7 },
  embeddings: { active: 11, answered: 13, failed: 17 },
  providers: [{ id: 'lab', kind: 'cloud', state: 'degraded' }],
  engines: [
    { model: 'm', state: 'loaded' },
    { model: null, state: 'starting' },
  ],
  log: { durable_seq: 19, lag: 23, size_bytes: 29, verified: { damaged: 31 } },
} as unknown as ReportRecord;

async function figures({ waiting = [] as number[], ready = true, stalled = false } = {}) {
  const kernel = {
    subscribe: () => {},
    commits: { subscribe: () => {} },
    clock: { now: () => 9000 },
    stalled: stalled ? {} : null,
    snapshot: (run: number) => (run === 0 ? undefined : { context: { created_at: run } }),
  };
  const metrics = new Metrics({
    kernel: kernel as unknown as Kernel,
    scheduler: { waitingRuns: () => waiting } as unknown as Scheduler,
    report: () => report,
    ready: () => ready,
    followers: () => 37,
  });
  const samples = parseMetrics(await metrics.text([]));
  return (name: string, labels = {}) => figureOf(samples, `svc_${name}`, labels);
}

test('a scrape has each figure of the state under its name', async () => {
  const figure = await figures();
  const of = (name: string, label: string, values: readonly string[]) =>
    values.map((value) => figure(name, { [label]: value }));
  assert.is(figure('info', { version: '1.2.3' }), 1);
  assert.is(figure('state', { state: 'ready.idle' }), 1);
  assert.equal(of('runs', 'state', ['active', 'queued', 'finished']), [2, 3, 5]);
  assert.is(figure('queue_capacity'), 7);
  assert.equal(of('embeddings', 'state', ['active', 'answered', 'failed']), [11, 13, 17]);
  assert.is(figure('provider_state', { provider: 'lab', kind: 'cloud', state: 'degraded' }), 1);
  assert.equal(of('engine_state', 'model', ['m', '']), [1, 1]);
  const log = ['position', 'backlog_events', 'size_bytes', 'damaged', 'stalled'];
  assert.equal(
    log.map((name) => figure(`log_${name}`)),
    [19, 23, 29, 31, 0],
  );
  assert.is(figure('followers'), 37);
  assert.is(figure('ready'), 1);
});

test('the oldest run that waits says how long, and without one it is 0', async () => {
  const oldest = async (waiting: number[]) =>
    (await figures({ waiting }))('queue_oldest_wait_seconds');
  assert.is(await oldest([]), 0);
  // A run that has just left does not count.
  assert.is(await oldest([0]), 0);
  assert.is(await oldest([8000, 2500, 0, 4000]), 6.5);
  // The clock was set back.
  assert.is(await oldest([9001]), 0);
});

test('a daemon that is not ready, and a disk that takes nothing, are seen', async () => {
  const figure = await figures({ ready: false, stalled: true });
  assert.equal([figure('ready'), figure('log_stalled')], [0, 1]);
});

test.run();
