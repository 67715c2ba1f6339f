import type { Upstream } from '../../helpers/upstream.ts';
import type { Attack, Victim } from '../attack.ts';
import { askInSilence, readWhenServed, startRun, startTeller } from '../followers.ts';

const MIB = 1024 * 1024;
const SIZES = {
  short: { pieces: 64, characters: 128 * 1024, runs: 2, clients: 24 },
  long: { pieces: 15 * 16, characters: 64 * 1024, runs: 4, clients: 64 },
};
let upstream: Upstream | null = null;

/** A large record is sent in pieces. All unsent bytes share one bound. */
export const attack: Attack = {
  summary: 'clients ask for the records of large runs and read nothing',
  env: (scale) => (scale === 'short' ? { SVC_LIMIT_UNSENT_BYTES: String(32 * MIB) } : {}),
  config: async (scale) => {
    const { pieces, characters } = SIZES[scale];
    const teller = await startTeller(pieces, characters);
    upstream = teller.upstream;
    return teller.config;
  },
  memory_mib: { short: 300, long: 450 },
  async run(victim, scale) {
    const { pieces, characters, runs, clients } = SIZES[scale];
    const ids: string[] = [];
    for (let index = 0; index < runs; index += 1) {
      const id = await startRun(victim, { prompt: 'Tell me all.', provider: 'teller' });
      await readWhenServed(victim, id);
      ids.push(id);
    }
    const silent = await askInSilence(victim, clients, (index) =>
      recordRequest(victim, ids[index % runs] ?? ''),
    );
    const read = await outputOf(victim, ids[0] ?? '');
    silent.end();
    if (read !== pieces * characters)
      throw new Error(`A client that reads got ${read} characters of the answer.`);
  },
  clean: () => upstream?.stop(),
};

function recordRequest({ host, token }: Victim, id: string): string {
  return `GET /v1/runs/${id} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n\r\n`;
}

/** Characters that a client that reads gets, while the others do not. */
async function outputOf({ url, bearer }: Victim, id: string): Promise<number> {
  const response = await fetch(`${url}/v1/runs/${id}`, { headers: bearer });
  if (response.status !== 200)
    throw new Error(`A client that reads was answered ${response.status}.`);
  return ((await response.json()) as { output: string }).output.length;
}
