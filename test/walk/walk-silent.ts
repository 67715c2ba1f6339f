import * as assert from 'uvu/assert';
import { possible } from '../store/inject.ts';
import { silence } from '../torture/disk.ts';
import type { Walked } from './edges.ts';
import { House } from './life.ts';

/** A disk that does not answer: nothing is taken until it does, and what happened meanwhile is recorded then. */
async function silentDisk(): Promise<Walked> {
  const house = await House.build({
    LIMIT_QUEUE_RUNS: 2,
    LIMIT_COMMIT_LATE_MS: 300,
    LIMIT_STOP_BLOCKED_MS: 100_000,
    LIMIT_DRAIN_MS: 600_000,
  });
  /** The commit that is late is that of a probe. */
  const stalled = async (state: string) => {
    await house.until(state);
    const release = await silence(house.pid);
    const probing = house.home.svc(['provider', 'test', 'up']);
    await house.until('running.disk_stalled');
    return async () => {
      await release();
      await probing;
    };
  };
  await house.start('ready');
  for (const [runs, state] of [
    [0, 'ready'],
    [1, 'running.accepting'],
    [2, 'running.saturated'],
  ] as const) {
    const ids: string[] = [];
    while (ids.length < runs) ids.push(await house.run('say hold'));
    const release = await stalled(state);
    await house.lookClosely('running.disk_stalled');
    await house.refuses('disk_resumed', 'running.disk_stalled', ['stop_requested']);
    assert.is((await house.post('/v1/runs', { prompt: 'finish' })).status, 503);
    await release();
    await house.until(state);
    await house.look(state);
    for (const id of ids) await house.cancel(id);
    await house.until('ready');
  }
  for (const runs of [0, 1]) {
    if (runs > 0) await house.untilRun(await house.run('say hold'), 'streaming');
    const release = await stalled(runs > 0 ? 'running.accepting' : 'ready');
    house.signal('SIGTERM');
    await house.until(runs > 0 ? 'stopping.draining' : 'stopping.closing');
    await release();
    await house.upstream.finish();
    await house.gone(0);
    if (runs === 0) await house.start('ready');
  }
  return house.leave();
}

/** None where a disk cannot be silenced. */
export const silentLives = possible ? [silentDisk] : [];
