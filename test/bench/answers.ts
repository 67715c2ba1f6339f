import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { makeHome } from '../helpers/svc.ts';
import { type Answer, askChat, type Question } from './lib/chat.ts';
import { startDaemon } from './lib/daemon.ts';
import { findProgram, type Running, startServer } from './lib/peers.ts';
import { Report } from './lib/report.ts';
import { median } from './lib/statistics.ts';
import { takeTurns } from './lib/turns.ts';

/**
 * Answers of local models, of the daemon and of other servers, in turns: `npm run bench answers
 * [rounds]`. All have the same model file, one thread, the same prompt and temperature 0. The made
 * models have random weights, so their answers are as long as the limit. Tokens are those of the
 * usage that each server reports.
 */

const rounds = Number(process.argv[2] ?? 5);
const FLOOR = 'llama-server';
const CONTEXT = 4096;
const PARALLEL = 8;
const EXACT = { SVC_ENGINE_BATCHING: 'false' };
const report = new Report('answers');
const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));

interface Model {
  name: string;
  file: string;
  /** Tokens of an answer. */
  tokens: number;
  prompts: Readonly<Record<string, string>>;
  /** Whether it can read a conversation. */
  turns: boolean;
}

/** The tokenizer of the made models has a token for each character. */
const PROMPTS = { '20 tokens': 'Say twenty words.', '2 000 tokens': 'word '.repeat(400) };
const models: Model[] = [
  {
    name: 'svc-mini',
    file: new URL('../../src/providers/mini/svc-mini.gguf', import.meta.url).pathname,
    tokens: 64,
    prompts: { 'a question': 'How do I start the daemon?' },
    turns: false,
  },
  ...[
    { name: '70 MB', width: 512, layers: 7, tokens: 64 },
    { name: '500 MB', width: 1024, layers: 12, tokens: 32 },
  ].map(({ name, tokens, ...shape }) => ({
    name,
    file: makeGguf(join(folder, `made-${name.replace(' ', '').toLowerCase()}.gguf`), {
      ...shape,
      context: CONTEXT,
    }),
    tokens,
    prompts: PROMPTS,
    turns: true,
  })),
];

const wanted = process.argv[3];
try {
  for (const model of models)
    if (wanted === undefined || model.name.startsWith(wanted)) await compare(model);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
report.print();

async function compare(model: Model): Promise<void> {
  const servers = await startAll(model);
  try {
    for (const [length, prompt] of Object.entries(model.prompts))
      for (const clients of [1, 4, PARALLEL]) {
        const firsts = Object.fromEntries(servers.map(({ way }) => [way, [] as number[]]));
        const what = `${model.name}, ${length}, ${clients} at once`;
        const measure = async (way: string, ask: Asking) => {
          const began = performance.now();
          const answers = await Promise.all(
            Array.from({ length: clients }, (_, index) => ask(`${index} ${prompt}`, model.tokens)),
          );
          const seconds = (performance.now() - began) / 1000;
          firsts[way]?.push(median(answers.map(({ first_ms }) => first_ms)));
          return answers.reduce((sum, { tokens }) => sum + tokens, 0) / seconds;
        };
        const ways = Object.fromEntries(
          servers.map(({ way, ask }) => [way, () => measure(way, ask)]),
        );
        await takeTurns(report, { what, unit: 'tokens/s', rounds, floor: FLOOR, ways });
        for (const [way, values] of Object.entries(firsts))
          report.add({
            what: `${what}, first token`,
            unit: 'ms',
            way,
            values: values.slice(1),
            floor: FLOOR,
          });
      }
    if (model.turns) await compareTurns(model, servers);
  } finally {
    for (const { stop } of servers) await stop();
  }
}

/** The first token of the second turn. Each server may reuse what it computed for the first. */
async function compareTurns(model: Model, servers: readonly Server[]): Promise<void> {
  let conversations = 0;
  const measure = async (ask: Asking) => {
    conversations += 1;
    const content = `${conversations} ${'word '.repeat(400)}`;
    const { text } = await ask(content, 8);
    const earlier = [
      { role: 'user' as const, content },
      { role: 'assistant' as const, content: text },
    ];
    return (await ask('And then?', 1, earlier)).first_ms;
  };
  await takeTurns(report, {
    what: `${model.name}, 2 000 tokens, first token of the second turn`,
    unit: 'ms',
    rounds,
    floor: FLOOR,
    ways: Object.fromEntries(servers.map(({ way, ask }) => [way, () => measure(ask)])),
  });
}

type Asking = (
  prompt: string,
  max_tokens: number,
  earlier?: Question['earlier'],
) => Promise<Answer>;

interface Server {
  way: string;
  ask: Asking;
  stop(): Promise<void>;
}

async function startAll(model: Model): Promise<Server[]> {
  const servers = [await startSvc('svc', model), await startSvc('svc, exact', model, EXACT)];
  for (const start of [startLlamaServer, startOllama]) {
    const server = await start(model);
    if (server !== null) servers.push(server);
  }
  return servers;
}

async function startSvc(
  way: string,
  { file }: Model,
  env: NodeJS.ProcessEnv = {},
): Promise<Server> {
  const home = makeHome({
    SVC_ENGINE_THREADS: '1',
    SVC_MODEL: 'measured',
    SVC_LOG_LEVEL: 'warn',
    ...env,
  });
  mkdirSync(home.paths.models, { recursive: true, mode: 0o700 });
  copyFileSync(file, join(home.paths.models, 'measured.gguf'));
  const { chat, stop } = await startDaemon(home);
  return {
    way,
    ask: (prompt, max_tokens, earlier = []) =>
      askChat(chat, { model: 'measured', prompt, max_tokens, earlier }),
    stop,
  };
}

function overHttp(way: string, model: string, running: Running): Server {
  const url = `${running.url}/v1/chat/completions`;
  return {
    way,
    ask: (prompt, max_tokens, earlier = []) =>
      askChat({ url, token: null }, { model, prompt, max_tokens, earlier }),
    stop: () => running.stop(),
  };
}

async function startLlamaServer({ file }: Model): Promise<Server | null> {
  const { path, how } = findProgram(FLOOR);
  if (path === null) return missing(FLOOR, how);
  const running = await startServer({
    command: path,
    args: (port) => [
      ...['--model', file, '--host', '127.0.0.1', '--port', String(port), '--threads', '1'],
      ...['--parallel', String(PARALLEL), '--ctx-size', String(PARALLEL * CONTEXT)],
    ],
    probe: '/v1/models',
  });
  return overHttp(FLOOR, 'measured', running);
}

async function startOllama({ file }: Model): Promise<Server | null> {
  const { path, how } = findProgram('ollama');
  if (path === null) return missing('ollama', how);
  const home = mkdtempSync(join(folder, 'ollama-'));
  const running = await startServer({
    command: path,
    args: () => ['serve'],
    env: (port) => ({
      HOME: home,
      OLLAMA_HOST: `127.0.0.1:${port}`,
      OLLAMA_NUM_PARALLEL: String(PARALLEL),
      OLLAMA_CONTEXT_LENGTH: String(CONTEXT),
    }),
    probe: '/api/version',
  });
  const bytes = readFileSync(file);
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
  await post(`${running.url}/api/blobs/${digest}`, bytes);
  await post(
    `${running.url}/api/create`,
    JSON.stringify({
      model: 'measured',
      files: { 'measured.gguf': digest },
      parameters: { num_thread: 1 },
    }),
  );
  return overHttp('ollama', 'measured', running);
}

function missing(way: string, how: string): null {
  report.addMissing({ way, how });
  return null;
}

async function post(url: string, body: Uint8Array | string): Promise<void> {
  const answer = await fetch(url, { method: 'POST', body });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${text.slice(0, 300)}`);
}
