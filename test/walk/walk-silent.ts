import * as assert from 'uvu/assert';
import { possible } from '../kernel/store/inject.ts';
import { silence } from '../torture/disk.ts';
import type { Walked } from './edges.ts';
import { Harness } from './harness.ts';

/**
 * A disk that does not answer: nothing is taken until it does, and what happened meanwhile is
 * recorded then.
 */
async function silentDisk(): Promise<Walked> {
  const harness = await Harness.build({
    LIMIT_QUEUE_RUNS: 2,
    LIMIT_COMMIT_LATE_MS: 300,
    LIMIT_STOP_BLOCKED_MS: 100_000,
    LIMIT_DRAIN_MS: 600_000,
  });
  /** The commit that is late is that of a probe. */
  const stalled = async (state: string) => {
    await harness.until(state);
    const release = await silence(harness.pid);
    const probing = harness.home.svc(['provider', 'test', 'up']);
    await harness.until('running.disk_stalled');
    return async () => {
      await release();
      await probing;
    };
  };
  await harness.start('ready');
  for (const [runs, state] of [
    [0, 'ready'],
    [1, 'running.accepting'],
    [2, 'running.saturated'],
  ] as const) {
    const ids: string[] = [];
    while (ids.length < runs) ids.push(await harness.run('say hold'));
    const release = await stalled(state);
    await harness.lookClosely('running.disk_stalled');
    await harness.refuses('disk_resumed', 'running.disk_stalled', ['stop_requested']);
    assert.is((await harness.post('/v1/runs', { prompt: 'finish' })).status, 503);
    await release();
    await harness.until(state);
    await harness.look(state);
    for (const id of ids) await harness.cancel(id);
    await harness.until('ready');
  }
  for (const runs of [0, 1]) {
    if (runs > 0) await harness.untilRun(await harness.run('say hold'), 'streaming');
    const release = await stalled(runs > 0 ? 'running.accepting' : 'ready');
    harness.signal('SIGTERM');
    await harness.until(runs > 0 ? 'stopping.draining' : 'stopping.closing');
    await release();
    await harness.upstream.finish();
    await harness.gone(0);
    if (runs === 0) await harness.start('ready');
  }
  return harness.leave();
}

/** None where a disk cannot be silenced. */
export const silentScenarios = possible ? [silentDisk] : [];
