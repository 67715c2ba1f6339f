import { Agent, request } from 'node:http';
import { chunk, Upstream } from '../../helpers/upstream.ts';
import type { Attack, Victim } from '../attack.ts';
import { startRun } from '../followers.ts';

const SIZES = {
  short: { runs: 8, followers: 80, pieces: 40 },
  long: { runs: 40, followers: 1000, pieces: 100 },
};
/** Between two pieces of an answer, as a model writes. */
const PIECE_MS = 50;
let upstream: Upstream | null = null;

/**
 * An event is written once for all followers of its run. No reading follower is cut or misses an
 * event.
 */
export const attack: Attack = {
  summary: 'many followers read many answers as they are written',
  env: () => ({ SVC_LIMIT_CONNECTIONS: '1200', SVC_LIMIT_PROVIDER_RUNS: '64' }),
  config: async (scale) => {
    upstream = await Upstream.start(async (exchange) => {
      exchange.open();
      const tell = async () => {
        for (let index = 0; index < SIZES[scale].pieces; index += 1) {
          await exchange.event(chunk({ content: `word ${index} ` }));
          await new Promise((resolve) => setTimeout(resolve, PIECE_MS));
        }
        await exchange.finish();
        await exchange.done();
      };
      await tell().catch(() => {});
    });
    return {
      providers: {
        writer: { base_url: upstream.base_url, adapter: 'openai-compatible', model: 'm' },
      },
    };
  },
  memory_mib: { short: 150, long: 350 },
  async run(victim, scale) {
    const { runs, followers, pieces } = SIZES[scale];
    const answer = Array.from({ length: pieces }, (_, index) => `word ${index} `).join('');
    const ids = await Promise.all(
      Array.from({ length: runs }, () =>
        startRun(victim, { prompt: 'Write.', provider: 'writer' }),
      ),
    );
    const agent = new Agent({ maxSockets: followers });
    const told = await Promise.all(
      Array.from({ length: followers }, (_, index) =>
        follow(victim, agent, ids[index % runs] ?? ''),
      ),
    );
    const wrong = told.filter((text) => text !== answer);
    if (wrong.length > 0)
      throw new Error(
        `${wrong.length} of ${followers} followers got another answer, such as: ${wrong[0]?.slice(0, 200)}`,
      );
  },
  clean: () => upstream?.stop(),
};

/** The text of the answer as the events tell it. */
function follow({ port, bearer }: Victim, agent: Agent, id: string): Promise<string> {
  return new Promise((resolve) => {
    const asked = request(
      { host: '127.0.0.1', port, path: `/v1/runs/${id}/events`, headers: bearer, agent },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (piece: string) => {
          text += piece;
        });
        response.once('close', () => resolve(answerIn(text)));
      },
    );
    asked.once('error', (error) => resolve(error.message));
    asked.end();
  });
}

function answerIn(events: string): string {
  const data = events
    .split('\n')
    .flatMap((line) =>
      line.startsWith('data: ')
        ? [JSON.parse(line.slice('data: '.length)) as { data?: { text?: string } }]
        : [],
    );
  return data.map((event) => event.data?.text ?? '').join('');
}
