import { globSync, readFileSync, statSync } from 'node:fs';
import { makeHome } from '../helpers/svc.ts';
import { startDaemon } from './lib/daemon.ts';
import { cpuMs } from './lib/process.ts';
import { Report } from './lib/report.ts';
import { startAnswering, useUpstream } from './lib/upstream.ts';

/**
 * The cost of a long conversation: `npm run bench conversation [turns] [--only chat]`.
 *
 * Each turn has 5 kB of new text, and the upstream answers with a few words. In three of the ways a
 * client sends all earlier messages with each turn; in the others the daemon has them. The log is
 * compared with the new text: what the client had not sent before, and the answers. The CPU is that
 * of the daemon for each turn.
 */

const TURNS = Number(process.argv[2] ?? 200);
const TURN_CHARS = 5_000;
/** Turns at the beginning and at the end whose CPU is compared. */
const SOME = 10;

const DOCS = globSync('docs/**/*.md')
  .sort()
  .map((file) => readFileSync(file, 'utf8'))
  .join('');

interface Said {
  role: 'user' | 'assistant';
  content: string;
}
type Ask = (path: string, body: object) => Promise<Answer>;
interface Answer {
  id: string;
  conversation?: string;
  choices: { message: { content: string } }[];
  content: { text?: string }[];
  output: { content?: { text: string }[] }[];
}

/** What one turn asks with all that was said before it, and what it was answered. */
type Way = (ask: Ask, said: readonly Said[]) => Promise<string>;

const responseText = ({ output }: Answer) =>
  output.flatMap(({ content = [] }) => content.map(({ text }) => text)).join('');

/** Each makes the way of one conversation. */
const WAYS: Record<string, () => Way> = {
  'chat completions': () => async (ask, messages) => {
    const { choices } = await ask('/v1/chat/completions', { model: 'm', messages });
    return choices[0]?.message.content ?? '';
  },
  Messages: () => async (ask, messages) => {
    const { content } = await ask('/v1/messages', { model: 'm', max_tokens: 100, messages });
    return content.map(({ text = '' }) => text).join('');
  },
  Responses: () => async (ask, input) =>
    responseText(await ask('/v1/responses', { model: 'm', input })),
  'Responses, previous_response_id': () => {
    let previous: object = {};
    return async (ask, said) => {
      const input = said.at(-1)?.content;
      const answer = await ask('/v1/responses', { model: 'm', input, ...previous });
      previous = { previous_response_id: answer.id };
      return responseText(answer);
    };
  },
  'Responses, conversation': () => {
    let conversation: string | null = null;
    return async (ask, said) => {
      conversation ??= (await ask('/v1/conversations', {})).id;
      const input = said.at(-1)?.content;
      return responseText(await ask('/v1/responses', { model: 'm', input, conversation }));
    };
  },
};

const report = new Report('conversation');
const upstream = await startAnswering();
for (const [way, make] of Object.entries(WAYS))
  if (way.startsWith(process.env.BENCH_ONLY ?? '')) await measure(way, make());
await upstream.stop();
report.print();

async function measure(way: string, turn: Way): Promise<void> {
  const home = makeHome({
    SVC_LOG_LEVEL: 'warn',
    SVC_MODEL: 'none',
    // A thousand turns are more than a request may have by default.
    SVC_LIMIT_PROMPT_BYTES: String(2 * TURNS * TURN_CHARS),
    SVC_LIMIT_BODY_BYTES: String(4 * TURNS * TURN_CHARS),
  });
  useUpstream(home, upstream, { default_provider: 'fake', history: { keep_bytes: null } });
  const { life, http, token } = await startDaemon(home);
  const ask: Ask = async (path, body) => {
    const response = await fetch(http + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as Answer;
  };
  const said: Said[] = [];
  const cpu: number[] = [];
  let new_chars = 0;
  for (let index = 0; index < TURNS; index += 1) {
    said.push({ role: 'user', content: textOf(index) });
    const before = cpuMs(life.pid);
    const content = await turn(ask, said);
    cpu.push(cpuMs(life.pid) - before);
    new_chars += TURN_CHARS + content.length;
    said.push({ role: 'assistant', content });
    // A thousand requests of all turns are several gigabytes.
    upstream.received.length = 0;
  }
  await life.stop(0);
  const bytes = statSync(home.paths.database).size;
  const row = (what: string, unit: string, value: number) =>
    report.add({ what, unit, way, values: [value] });
  row(`log after ${TURNS} turns of ${TURN_CHARS} characters`, 'of the new text', bytes / new_chars);
  row('a turn at the start', 'ms CPU', mean(cpu.slice(SOME, 2 * SOME)));
  row('a turn at the end', 'ms CPU', mean(cpu.slice(-SOME)));
  await home.close();
}

function mean(turns: readonly number[]): number {
  return turns.reduce((sum, one) => sum + one, 0) / turns.length;
}

/** The next part of the documentation, which begins again at its end. */
function textOf(turn: number): string {
  const at = (turn * TURN_CHARS) % DOCS.length;
  return `${turn} ${(DOCS + DOCS).slice(at, at + TURN_CHARS)}`.slice(0, TURN_CHARS);
}
