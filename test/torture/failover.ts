import { writeFileSync } from 'node:fs';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { serve } from './daemon.ts';
import { FailoverLoad, type Tally } from './failover-load.ts';
import { KillableProvider } from './killable-provider.ts';

export interface FailoverResult extends Tally {
  kills: number;
}

/** Whether the first provider is up in each phase. */
const PHASES = [true, false, true, false, true];

/**
 * Runs of two targets under load, at the built daemon. The first provider is killed twice in the
 * middle of answers, and comes back twice.
 *
 * The phases follow what happened, not the time. A phase ends when its share of the runs has begun.
 * A provider that is back must have answered before the next kill.
 */
export async function failover(options: {
  runs: number;
  clients: number;
}): Promise<FailoverResult> {
  const home = makeHome();
  const first = await KillableProvider.start('first');
  const second = await KillableProvider.start('second');
  let kills = 0;
  try {
    configure(home, first, second);
    const life = await serve(home);
    const load = new FailoverLoad(home, [first, second]);
    const working = load.work(options.clients);
    for (const [phase, isUp] of PHASES.entries()) {
      if (isUp && phase > 0) await first.revive();
      if (!isUp) {
        await waitFor('the first provider has begun an answer', () => first.open > 0);
        await first.kill();
        kills += 1;
      }
      const before = load.answers('first');
      const share = Math.round((options.runs * (phase + 1)) / PHASES.length);
      await waitFor(
        `phase ${phase + 1} is over`,
        () => load.begun >= share && (!isUp || load.answers('first') > before),
        { within_ms: PHASE_MS },
      );
    }
    load.finish();
    await working;
    await life.stop();
    return { ...load.tally(), kills };
  } finally {
    await home.close();
    await Promise.all([first.stop(), second.stop()]);
  }
}

/** Bounds a hang. */
const PHASE_MS = 300_000;

/** The first provider has a circuit, as clouds have. The second one is probed. */
function configure(home: Home, first: KillableProvider, second: KillableProvider): void {
  const providers = {
    first: { base_url: first.base_url, kind: 'cloud' },
    second: { base_url: second.base_url },
  };
  const limits = { circuit_wait_max_ms: 200 };
  writeFileSync(home.paths.config, JSON.stringify({ providers, limits }), { mode: 0o600 });
}
