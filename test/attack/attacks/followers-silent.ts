import type { Upstream } from '../../helpers/upstream.ts';
import type { Attack } from '../attack.ts';
import {
  askInSilence,
  eventsRequest,
  readWhenServed,
  startRun,
  startTeller,
  upgradeRequest,
} from '../followers.ts';

const MIB = 1024 * 1024;
const SIZES = {
  short: { pieces: 64, characters: 128 * 1024, sse: 60, ws: 20 },
  long: { pieces: 15 * 16, characters: 64 * 1024, sse: 400, ws: 60 },
};
let upstream: Upstream | null = null;

/**
 * Each follower is sent a page at a time, and all pages together have a bound: above it those that
 * do not read are cut.
 */
export const attack: Attack = {
  summary: 'followers of a large answer read nothing, over server-sent events and WebSocket',
  env: (scale) =>
    scale === 'short'
      ? { SVC_LIMIT_UNSENT_BYTES: String(8 * MIB), SVC_LIMIT_HEARTBEAT_MS: '1000' }
      : { SVC_LIMIT_HEARTBEAT_MS: '5000' },
  config: async (scale) => {
    const { pieces, characters } = SIZES[scale];
    const teller = await startTeller(pieces, characters);
    upstream = teller.upstream;
    return teller.config;
  },
  memory_mib: { short: 300, long: 600 },
  async run(victim, scale) {
    const { pieces, characters, sse, ws } = SIZES[scale];
    const id = await startRun(victim, { prompt: 'Tell me all.', provider: 'teller' });
    await readWhenServed(victim, id);
    const followers = await askInSilence(victim, sse, () => eventsRequest(victim, id));
    const watchers = await askInSilence(victim, ws, () =>
      upgradeRequest(victim, '/v1/events?from=1'),
    );
    const bytes = await readWhenServed(victim, id);
    followers.end();
    watchers.end();
    if (bytes < pieces * characters)
      throw new Error(`A client that reads got ${bytes} bytes of the answer.`);
  },
  clean: () => upstream?.stop(),
};
