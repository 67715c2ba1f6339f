import type { Upstream } from '../../helpers/upstream.ts';
import { waitFor } from '../../helpers/wait.ts';
import type { Attack, Victim } from '../attack.ts';
import { askRun, floodConfig, logBytes, startFlood, untilIdle } from '../flood.ts';

const MIB = 1024 * 1024;
const KEEP_BYTES = 32 * MIB;
const SIZES = { short: { modest: 20, endless: 4 }, long: { modest: 200, endless: 12 } };
let upstream: Upstream | null = null;

/**
 * The provider that takes most pays for the size of the log; the runs of another stay, and their
 * keys.
 */
export const attack: Attack = {
  summary: 'a provider answers without end until the history is larger than its bound',
  env: () => ({ SVC_HISTORY_KEEP_BYTES: String(KEEP_BYTES), SVC_LIMIT_PRUNE_EVERY_MS: '1000' }),
  config: async () => {
    upstream = await startFlood();
    return floodConfig(upstream, ['modest', 'greedy']);
  },
  memory_mib: { short: 600, long: 900 },
  livez_ms: 2000,
  async run(victim, scale) {
    const { modest, endless } = SIZES[scale];
    const ask = (index: number) =>
      askRun(victim, {
        prompt: `size:${20_000 + index}`,
        provider: 'modest',
        idempotency_key: `key-${index}`,
      });
    const before: string[] = [];
    for (let index = 0; index < modest; index += 1) before.push((await ask(index)).id);
    await untilIdle(victim);
    await Promise.all(
      Array.from({ length: endless }, () =>
        askRun(victim, { prompt: 'endless', provider: 'greedy' }),
      ),
    );
    await untilIdle(victim);
    await waitFor('the log has its size again', () => logBytes(victim) < 2 * KEEP_BYTES, {
      within_ms: 120_000,
      every_ms: 200,
    });
    const left = await runsOf(victim, 'greedy');
    if (left >= endless) throw new Error('No run of the provider that takes most was removed.');
    for (const [index, id] of before.entries()) {
      const again = await ask(index);
      if (again.id !== id)
        throw new Error(`The key of run ${index} does not hold any more: its run was removed.`);
    }
  },
  clean: () => upstream?.stop(),
};

async function runsOf({ life }: Victim, provider: string): Promise<number> {
  return (await life.ask((client) => client.call('run.list', { provider, limit: 50 }))).runs.length;
}
