import type { Upstream } from '../../helpers/upstream.ts';
import type { Attack } from '../attack.ts';
import { askRun, endsOf, floodConfig, logBytes, startFlood, untilIdle } from '../flood.ts';

const MIB = 1024 * 1024;
const TOGETHER = { short: [1, 3], long: [1, 5, 12] };
/** One answer is too large, or all are together. */
const CUT = ['failed stream_oversized'];
let upstream: Upstream | null = null;

/**
 * One answer has a bound, and so have all that are in progress together: what is more is cut, and
 * says so.
 */
export const attack: Attack = {
  summary: 'a provider answers without end, once and several times at once',
  config: async () => {
    upstream = await startFlood();
    return floodConfig(upstream, ['endless']);
  },
  // The 48 MiB of text of the short form took 380 to 600 MiB: the collector decides when.
  memory_mib: { short: 800, long: 900 },
  livez_ms: 2000,
  async run(victim, scale) {
    let asked = 0;
    for (const count of TOGETHER[scale]) {
      const runs = await Promise.all(
        Array.from({ length: count }, () =>
          askRun(victim, { prompt: 'endless', provider: 'endless' }),
        ),
      );
      await untilIdle(victim);
      asked += count;
      const ends = await endsOf(
        victim,
        runs.map(({ id }) => id),
      );
      if (ends.some((end) => !CUT.includes(end)))
        throw new Error(`They ended as ${ends.join(', ')}.`);
    }
    const after = await askRun(victim, { prompt: 'hello', provider: 'endless' });
    await untilIdle(victim);
    const [end] = await endsOf(victim, [after.id]);
    if (end !== 'completed') throw new Error(`A run after that ended as ${end}.`);
    const log_mib = Math.round(logBytes(victim) / MIB);
    if (log_mib > asked * 50 + 20)
      throw new Error(`The event log has ${log_mib} MiB after ${asked} answers.`);
  },
  clean: () => upstream?.stop(),
};
