import { Agent, request } from 'node:http';
import type { Upstream } from '../../helpers/upstream.ts';
import type { Attack, Victim } from '../attack.ts';
import { startTeller } from '../followers.ts';

const RUNS = { short: 600, long: 20_000 };
const AT_ONE_TIME = 16;
/** What may be left of what the runs took, in MiB. */
const LEFT_MIB = { short: 110, long: 130 };
let upstream: Upstream | null = null;

/** An idle daemon frees the memory of many runs. */
export const attack: Attack = {
  summary: 'many quick runs, one after the other, and then nothing',
  env: () => ({ SVC_LIMIT_MEMORY_IDLE_MS: '1000' }),
  config: async () => {
    const teller = await startTeller(1, 2);
    upstream = teller.upstream;
    return teller.config;
  },
  memory_mib: { short: 350, long: 450 },
  async run(victim, scale) {
    const before = victim.rss_mib();
    const agent = new Agent({ keepAlive: true, maxSockets: AT_ONE_TIME });
    let left = RUNS[scale];
    const work = async () => {
      for (; left > 0; await runOnce(victim, agent)) left -= 1;
    };
    await Promise.all(Array.from({ length: AT_ONE_TIME }, work));
    agent.destroy();
    for (let times = 0; victim.rss_mib() - before > LEFT_MIB[scale]; times += 1) {
      if (times === TIMES_MAX)
        throw new Error(`${victim.rss_mib() - before} MiB were not given back.`);
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  },
  clean: () => upstream?.stop(),
};

const TIMES_MAX = 240;

function runOnce({ port, bearer }: Victim, agent: Agent): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { ...bearer, 'content-type': 'application/json', accept: 'text/event-stream' };
    const sent = request(
      { host: '127.0.0.1', port, path: '/v1/runs', method: 'POST', headers, agent },
      (response) => {
        let text = '';
        response.on('data', (piece: Buffer) => {
          text += piece.toString();
        });
        response.once('end', () =>
          text.includes('event: run.completed')
            ? resolve()
            : reject(new Error(`A run was answered ${response.statusCode}: ${text}`)),
        );
      },
    );
    sent.once('error', reject);
    sent.end('{"prompt":"hi","provider":"teller"}');
  });
}
