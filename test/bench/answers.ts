import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { testModel } from '../../tools/test-models/models.ts';
import { type GgufOptions, makeGguf, manyPieces } from '../fixtures/models/make-gguf.ts';
import { AS_SHIPPED, makeHome } from '../helpers/svc.ts';
import { busily } from './lib/busy.ts';
import { type Answer, askChat, type Question } from './lib/chat.ts';
import { startDaemon } from './lib/daemon.ts';
import { findProgram, type Running, startServer } from './lib/peers.ts';
import { familyCpuMs } from './lib/process.ts';
import { Report } from './lib/report.ts';
import { median } from './lib/statistics.ts';
import { takeTurns } from './lib/turns.ts';
import { warmUp } from './lib/warm-up.ts';

/**
 * Answers of local models, of the daemon and of other servers, in turns: `npm run bench answers
 * [rounds] [--only ROWS]`. All have the same model file and prompt, and temperature 0. The real
 * model is asked of servers with their defaults, the others of one thread with room for eight
 * answers. The made models have random weights, so their answers are as long as the limit. Tokens
 * are those of the usage that each server reports. CPU is that of the server with all its
 * processes, for a token of the answer, its prompt included. A load is the time to the first token
 * of a model that is not in memory: of svc without its engine process, of llama-server from its
 * start.
 */

const rounds = Number(process.argv[2] ?? 5);
const only = process.env.BENCH_ONLY;
const FLOOR = 'llama-server';
const CONTEXT = 4096;
const PARALLEL = 8;
/** The contexts of eight answers of the largest model need 5 GB. */
const ENGINE_BYTES = 8 * 1024 ** 3;
const EXACT = { SVC_ENGINE_BATCHING: 'false' };
const ONE_THREAD = { SVC_ENGINE_THREADS: '1' };
/** One thread, and room for eight answers. */
const ALIKE = [
  '--threads',
  '1',
  '--parallel',
  String(PARALLEL),
  '--ctx-size',
  String(PARALLEL * CONTEXT),
];
/** It is measured only beside busy processes. */
const SINGLE = 'svc, one thread';
/** llama-server, which svc starts and asks. */
const MANAGED = 'svc, llama-server';
/** Further rows of each prompt, in ms. */
const PARTS = [
  ['first_ms', 'first token'],
  ['cpu_ms', 'CPU a token'],
  ['second_ms', 'first token of the second turn'],
] as const;
/** svc uses the file that it ships. The others get a copy. */
const BUILT_IN = 'svc-mini';
const report = new Report('answers');
const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));

/** Answers of one prompt. */
interface Asked {
  length: string;
  prompt: string;
  /** Requests at one time, a row for each. */
  clients: readonly number[];
  /** Tokens of an answer. */
  tokens: number;
  /** Each answer has a second turn, whose first token is a row. */
  turns?: boolean;
  /** Processes that are busy beside it. */
  beside?: number;
  /** It takes so long that only `--only` measures it. */
  long?: boolean;
}

interface Model {
  name: string;
  /** Each server has the threads that it chooses, and svc also starts llama-server itself. */
  defaults?: boolean;
  file: () => string;
  asked: readonly Asked[];
}

/** The tokenizer of the made models has a token for each character of a prompt. */
const SHORT = { length: '20 tokens', prompt: 'Say twenty words.', clients: [1, 4, PARALLEL] };
const LONG = { length: '2 000 tokens', prompt: 'word '.repeat(400), tokens: 8, turns: true };
/** About 2000 tokens of a trained model, which answers one word again and again with nothing. */
const TEXT = readFileSync(new URL('../../docs/architecture.md', import.meta.url), 'utf8').slice(
  0,
  6500,
);
const USUAL = { bits: 4, head: 64, pieces: manyPieces(32_000) } as const;
const models: readonly Model[] = [
  {
    name: BUILT_IN,
    file: () => new URL('../../src/providers/mini/svc-mini.gguf', import.meta.url).pathname,
    asked: [
      {
        length: 'a question',
        prompt: 'How do I start the daemon?',
        clients: SHORT.clients,
        tokens: 64,
      },
    ],
  },
  {
    name: '70 MB, 4 bits',
    file: () => made({ width: 768, layers: 12, ...USUAL }),
    asked: [
      { ...SHORT, tokens: 24 },
      { ...LONG, clients: [1] },
      { ...LONG, clients: [4, PARALLEL], long: true },
    ],
  },
  {
    name: '70 MB, 32 bits',
    file: () => made({ width: 512, layers: 7, head: 64 }),
    asked: [
      { ...SHORT, tokens: 32 },
      { ...LONG, clients: [1] },
    ],
  },
  {
    name: '500 MB, 4 bits',
    file: () => made({ width: 2048, layers: 18, ...USUAL }),
    asked: [
      { ...SHORT, tokens: 8 },
      { ...LONG, clients: [1], long: true },
    ],
  },
  ...real('SmolLM2, defaults', testModel('smollm2')),
  ...real('Gemma 3 270M, defaults', testModel('gemma')),
];

function real(name: string, file: string | null): Model[] {
  if (file === null) return [];
  const short = { ...SHORT, prompt: 'Write about a lighthouse.', tokens: 64 };
  const beside = { ...short, length: '2 busy processes beside', clients: [1], beside: 2 };
  const long = { ...LONG, prompt: TEXT, clients: [1] };
  return [{ name, defaults: true, file: () => file, asked: [short, beside, long] }];
}

try {
  for (const model of models) {
    const asked = model.asked
      .map((one) => ({
        ...one,
        clients: one.clients.filter((count) => isWanted(model, one, count)),
      }))
      .filter(({ clients }) => clients.length > 0);
    const load = `${model.name}, load`;
    const loads = model.defaults === true && (only === undefined || load.startsWith(only));
    if (asked.length > 0 || loads) await compare(model, asked, loads ? load : null);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
report.print();

function isWanted({ name }: Model, { length, long = false }: Asked, clients: number): boolean {
  return only === undefined ? !long : nameOf(name, length, clients).startsWith(only);
}

function nameOf(model: string, length: string, clients: number): string {
  return `${model}, ${length}, ${clients} at once`;
}

function made(options: GgufOptions): string {
  return makeGguf(join(folder, 'made.gguf'), { context: CONTEXT, ...options });
}

async function compare(
  { name, file, defaults }: Model,
  asked: readonly Asked[],
  load: string | null,
): Promise<void> {
  const servers = await startAll(name, file(), defaults);
  const numbers: Record<string, number> = {};
  // A server may keep the prompts of all rounds, so each is new. All ways get the same ones.
  const another = (way: string) => (numbers[way] = (numbers[way] ?? 0) + 1);
  try {
    for (const { ask } of servers)
      await warmUp((number) => ask(`Before ${number}: ${SHORT.prompt}`, 8));
    for (const one of asked)
      for (const clients of one.clients)
        await busily(one.beside ?? 0, () =>
          compareAnswers(nameOf(name, one.length, clients), { ...one, clients: [clients] }),
        );
    if (load !== null) await compareLoads(load);
  } finally {
    for (const { stop } of servers) await stop();
  }

  async function compareLoads(what: string) {
    const ways = Object.fromEntries(
      servers.flatMap(({ way, loadMs }) => (loadMs === undefined ? [] : [[way, loadMs]])),
    );
    await takeTurns(report, { what, unit: 'ms', rounds, floor: FLOOR, ways });
  }

  async function compareAnswers(what: string, { prompt, clients, tokens, turns, beside }: Asked) {
    const found = new Map<string, Found[]>();
    const measure = async (way: string, server: Server) => {
      const prompts = Array.from({ length: clients[0] ?? 1 }, () => `${another(way)} ${prompt}`);
      const figures = await answerAll(server, prompts, tokens);
      const second_ms = turns === true ? await secondTurn(server, figures.turns) : null;
      found.set(way, [...(found.get(way) ?? []), { ...figures, second_ms }]);
      return figures.speed;
    };
    const ways = Object.fromEntries(
      servers
        .filter(({ way }) => way !== SINGLE || beside !== undefined)
        // A prompt of one word is often answered with nothing: an error of that provider.
        .filter(({ way }) => way !== MANAGED || turns !== true)
        .map((server) => [server.way, () => measure(server.way, server)]),
    );
    await takeTurns(report, { what, unit: 'tokens/s', rounds, floor: FLOOR, ways });
    for (const [part, unit] of PARTS)
      for (const [way, all] of found) {
        const values = all.slice(1).flatMap((figures) => figures[part] ?? []);
        if (values.length > 0)
          report.add({ what: `${what}, ${unit}`, unit: 'ms', way, values, floor: FLOOR });
      }
  }
}

interface Found {
  first_ms: number;
  cpu_ms: number;
  second_ms: number | null;
}

async function answerAll({ ask, cpuMs }: Server, prompts: readonly string[], max_tokens: number) {
  const [began, before] = [performance.now(), cpuMs()];
  const answers = await Promise.all(prompts.map((prompt) => ask(prompt, max_tokens)));
  const seconds = (performance.now() - began) / 1000;
  const tokens = answers.reduce((sum, answer) => sum + answer.tokens, 0);
  return {
    speed: tokens / seconds,
    cpu_ms: (cpuMs() - before) / tokens,
    first_ms: median(answers.map(({ first_ms }) => first_ms)),
    turns: prompts.map((prompt, index) => ({ prompt, text: answers[index]?.text ?? '' })),
  };
}

/** Each server may reuse what it computed for the first turn. */
async function secondTurn({ ask }: Server, [turn]: readonly { prompt: string; text: string }[]) {
  if (turn === undefined) return null;
  const earlier = [
    { role: 'user' as const, content: turn.prompt },
    { role: 'assistant' as const, content: turn.text },
  ];
  const { first_ms } = await ask('Write about a lighthouse.', 8, earlier);
  // An answer without text has no first token.
  return first_ms > 0 ? first_ms : null;
}

type Asking = (
  prompt: string,
  max_tokens: number,
  earlier?: Question['earlier'],
) => Promise<Answer>;

interface Server {
  way: string;
  ask: Asking;
  cpuMs(): number;
  /** Milliseconds to the first token of the model that is not in memory. */
  loadMs?(): Promise<number>;
  stop(): Promise<void>;
}

async function startAll(name: string, file: string, defaults = false): Promise<Server[]> {
  const model = name === BUILT_IN ? BUILT_IN : 'measured';
  const env = defaults ? {} : ONE_THREAD;
  const servers = [
    await startSvc('svc', model, file, env),
    defaults
      ? await startManaged(file)
      : await startSvc('svc, exact', model, file, { ...env, ...EXACT }),
    defaults ? await startSvc(SINGLE, model, file, ONE_THREAD) : null,
  ];
  for (const start of [startLlamaServer, startOllama]) {
    const server = await start(file, defaults);
    if (server !== null) servers.push(server);
  }
  return servers.filter((server) => server !== null);
}

/** llama-server with its defaults, which svc starts and asks. */
async function startManaged(file: string): Promise<Server | null> {
  const { path } = findProgram(FLOOR);
  if (path === null) return null;
  const home = makeHome({ ...AS_SHIPPED, SVC_LIMIT_LOCAL_RUNS: String(PARALLEL) });
  const command = [path, '--model', file, '--port', '{port}'];
  const providers = { managed: { like: FLOOR, command, max_runs: PARALLEL } };
  writeFileSync(home.paths.config, JSON.stringify({ providers }), { mode: 0o600 });
  const { chat, life, stop } = await startDaemon(home);
  return {
    way: MANAGED,
    cpuMs: () => familyCpuMs(life.pid),
    ask: (prompt, max_tokens, earlier = []) =>
      askChat(chat, { model: 'managed/measured', prompt, max_tokens, earlier }),
    stop,
  };
}

async function startSvc(
  way: string,
  model: string,
  file: string,
  env: NodeJS.ProcessEnv = {},
): Promise<Server> {
  const home = makeHome({
    ...AS_SHIPPED,
    SVC_LIMIT_LOCAL_RUNS: String(PARALLEL),
    SVC_LIMIT_ENGINE_MEMORY_BYTES: String(ENGINE_BYTES),
    SVC_MODEL: model,
    SVC_LOG_LEVEL: 'warn',
    ...env,
  });
  if (model !== BUILT_IN) {
    mkdirSync(home.paths.models, { recursive: true, mode: 0o700 });
    copyFileSync(file, join(home.paths.models, `${model}.gguf`));
  }
  const { chat, life, stop } = await startDaemon(home);
  const ask: Asking = (prompt, max_tokens, earlier = []) =>
    askChat(chat, { model, prompt, max_tokens, earlier });
  return {
    way,
    cpuMs: () => familyCpuMs(life.pid),
    ask,
    loadMs: async () => {
      await life.ask((client) => client.call('model.unload', { model }));
      return (await ask(SHORT.prompt, 1)).first_ms;
    },
    stop,
  };
}

function overHttp(way: string, model: string, running: Running): Server {
  const url = `${running.url}/v1/chat/completions`;
  return {
    way,
    cpuMs: () => familyCpuMs(running.pid),
    ask: (prompt, max_tokens, earlier = []) =>
      askChat({ url, token: null }, { model, prompt, max_tokens, earlier }),
    stop: () => running.stop(),
  };
}

async function startLlamaServer(file: string, defaults: boolean): Promise<Server | null> {
  const { path, how } = findProgram(FLOOR);
  if (path === null) return missing(FLOOR, how);
  const start = async () => {
    const running = await startServer({
      command: path,
      args: (port) => ['--model', file, '--port', String(port), ...(defaults ? [] : ALIKE)],
      probe: '/v1/models',
    });
    return overHttp(FLOOR, 'measured', running);
  };
  const loadMs = async () => {
    const began = performance.now();
    const server = await start();
    try {
      const asked = performance.now();
      return asked - began + (await server.ask(SHORT.prompt, 1)).first_ms;
    } finally {
      await server.stop();
    }
  };
  return { ...(await start()), loadMs };
}

async function startOllama(file: string, defaults: boolean): Promise<Server | null> {
  const { path, how } = findProgram('ollama');
  if (path === null) return missing('ollama', how);
  const home = mkdtempSync(join(folder, 'ollama-'));
  const running = await startServer({
    command: path,
    args: () => ['serve'],
    env: (port) => ({
      HOME: home,
      OLLAMA_HOST: `127.0.0.1:${port}`,
      ...(defaults
        ? {}
        : { OLLAMA_NUM_PARALLEL: String(PARALLEL), OLLAMA_CONTEXT_LENGTH: String(CONTEXT) }),
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
      parameters: defaults ? {} : { num_thread: 1 },
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
