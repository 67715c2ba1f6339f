import type { Attack } from '../attack.ts';
import { askInSilence, eventsRequest, readWhenServed, startRun } from '../followers.ts';

const MIB = 1024 * 1024;
const SIZES = {
  short: { prompt: MIB, followers: 100 },
  long: { prompt: 4 * MIB - 1024, followers: 400 },
};

/** One event that is large is written once, and shared by all who are sent it. */
export const attack: Attack = {
  summary: 'followers of a run with a large prompt read nothing',
  env: (scale) =>
    scale === 'short'
      ? { SVC_LIMIT_UNSENT_BYTES: String(16 * MIB), SVC_LIMIT_HEARTBEAT_MS: '1000' }
      : { SVC_LIMIT_HEARTBEAT_MS: '5000' },
  // Nothing answers there: the run fails, and its prompt stays.
  config: () => ({
    providers: {
      nobody: { base_url: 'http://127.0.0.1:9/v1', adapter: 'openai-compatible', model: 'm' },
    },
  }),
  memory_mib: { short: 120, long: 400 },
  async run(victim, scale) {
    const { prompt, followers } = SIZES[scale];
    const id = await startRun(victim, { prompt: 'x'.repeat(prompt), provider: 'nobody' });
    await readWhenServed(victim, id);
    const silent = await askInSilence(victim, followers, () => eventsRequest(victim, id));
    const bytes = await readWhenServed(victim, id);
    silent.end();
    if (bytes < prompt) throw new Error(`A client that reads got ${bytes} bytes of the prompt.`);
  },
};
