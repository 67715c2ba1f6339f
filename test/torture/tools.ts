import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { SvcError } from '../../src/errors.ts';
import type { ControlClient } from '../../src/transport/control/client.ts';
import { TOOL } from '../attack/bomb-tools.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { TOOLS } from '../fixtures/models/templates.ts';
import { engineProcesses } from '../helpers/engine-processes.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { SCRIPTED } from '../helpers/tool-servers.ts';
import { type Exchange, Upstream } from '../helpers/upstream.ts';
import { type Life, launch, ready, serve } from './daemon.ts';
import { LivezWatch } from './livez.ts';
import { type Random, random } from './random.ts';
import { compareCalls, type Decision, newResult, TERMINAL, type ToolsResult } from './tool-log.ts';
import { serverProcesses } from './tool-processes.ts';
import {
  argumentsOf,
  BUILT_IN,
  HOSTILE,
  makeFolders,
  marksIn,
  reachOf,
  SERVERS,
  type ServerName,
} from './tool-servers.ts';

/**
 * Calls of tools under SIGKILL of the daemon, its engine and its servers. Clients start runs, and a
 * person decides. A server appends a line to a file for each execution; `tool-servers.ts` says what
 * those of svc itself leave. In the end that, the log and the answers to the person are compared.
 *
 * 1. Most kills follow an event of a run as closely as a client hears of it.
 * 2. Some come while a daemon or a server starts.
 * 3. Each home has a few clients, and several homes work side by side.
 * 4. Some runs call hostile servers, too. `/livez` is asked all the time.
 */

const ALL = Object.keys(SERVERS) as ServerName[];
/** The servers that are processes. Each turn of the local model calls their tools. */
const PROCESSES = ALL.filter((name) => !BUILT_IN.includes(name));
/** Each turn of the other model calls every tool that it has. */
const TURNS = 2;
const LOOPBACK = new URL('../helpers/loopback-is-public.mjs', import.meta.url);

/** The events that a kill follows. */
const TIMES = {
  daemon: [
    'run.accepted',
    'run.started',
    'run.output_appended',
    'run.turn_completed',
    'run.tool_requested',
    'run.tool_allowed',
    'run.tool_denied',
    'run.tool_started',
    'run.tool_finished',
    'run.tool_lost',
    'run.tool_decided',
    'run.recovered',
  ],
  engine: ['run.started', 'run.output_appended', 'run.turn_completed', 'run.tool_finished'],
  server: ['run.tool_requested', 'run.tool_allowed', 'run.tool_started', 'run.tool_lost'],
} as const;
type Victim = keyof typeof TIMES;
const VICTIMS = Object.keys(TIMES) as Victim[];

/** A call waits at most so long before its work, and again after it. */
const WORK_MS = 25;
/** A kill comes so long after its event. */
const AFTER_MS = 4;
/** An event that does not come for so long is not waited for. */
const PATIENCE_MS = 1500;
const CLIENTS_OF_HOME = 4;
/** How many runs of the scripted model call a hostile server, too. */
const EVIL = 0.4;
/** The bound of a call. */
const CALL_MS = 5000;
const BOMB_SERVER = fileURLToPath(new URL('../attack/bomb-server.ts', import.meta.url));

export async function tortureTools(options: {
  kills: number;
  clients: number;
  seed: number;
  signal: AbortSignal;
}): Promise<ToolsResult> {
  const { clients, seed, signal } = options;
  const result = newResult();
  const order = { left: options.kills, signal };
  const homes = Math.ceil(clients / CLIENTS_OF_HOME);
  const upstream = await Upstream.start((exchange) => answer(exchange, upstream));
  try {
    await Promise.all(
      Array.from({ length: homes }, (_, index) =>
        tortureHome(upstream, new Draws(seed + index, order, result)),
      ),
    );
  } finally {
    await upstream.stop();
  }
  for (const victim of VICTIMS)
    if (result[victim] === 0) result.problems.push(`no ${victim} was killed`);
  return result;
}

/** What the homes share, and the draws of one. */
class Draws {
  readonly draw: Random;
  readonly seed: number;
  readonly result: ToolsResult;
  readonly order: { left: number; signal: AbortSignal };

  constructor(seed: number, order: Draws['order'], result: ToolsResult) {
    [this.seed, this.order, this.result] = [seed, order, result];
    this.draw = random(seed);
  }

  /** Whether one more is to be killed. Counts it. */
  take(): boolean {
    if (this.order.left <= 0 || this.order.signal.aborted) return false;
    this.order.left -= 1;
    return true;
  }
}

async function tortureHome(upstream: Upstream, draws: Draws): Promise<void> {
  const folder = makeFolders();
  const home = makeHome({
    NODE_OPTIONS: `--import=${fileURLToPath(LOOPBACK)}`,
    SVC_LIMIT_TOOL_TURNS: String(TURNS),
    // The same model is killed again and again.
    SVC_LIMIT_ENGINE_QUARANTINE_MS: '0',
    // A hostile server never answers.
    SVC_LIMIT_TOOL_MS: String(CALL_MS),
  });
  try {
    configure(home, upstream, folder);
    const watch = new LivezWatch();
    const torture = new Torture(home, await serve(home), draws, watch);
    try {
      await watch.start(torture.life);
      await torture.work();
      await watch.stop();
      draws.result.livez_asked += watch.asked;
      draws.result.livez_worst_ms = Math.max(draws.result.livez_worst_ms, watch.worst_ms);
      const lines = readFileSync(fileOf(home), 'utf8').split('\n').filter(Boolean);
      const asked = upstream.received.map(({ path }) => path);
      const ofHome = marksIn(folder, asked).filter((mark) => mark.startsWith(`${draws.seed}-`));
      await compareCalls(torture, [...lines, ...ofHome], draws.result);
    } finally {
      watch.end();
      await torture.life.stop(0);
    }
  } finally {
    await home.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function configure(home: Home, upstream: Upstream, folder: string): void {
  writeFileSync(fileOf(home), '');
  const providers = { scripted: { base_url: upstream.base_url, model: 'm' } };
  writeFileSync(home.paths.config, JSON.stringify({ providers }), { mode: 0o600 });
  const env = { COUNT_FILE: fileOf(home), WORK_MS: String(WORK_MS) };
  const program = { command: process.execPath, args: [SCRIPTED], env };
  const mcpServers: Record<string, object> = Object.fromEntries(
    ALL.map((name) => {
      const made = BUILT_IN.includes(name) ? reachOf(name, folder, originOf(upstream)) : program;
      return [name, { ...made, svc: SERVERS[name].svc }];
    }),
  );
  for (const slug of HOSTILE) {
    const args = [BOMB_SERVER, slug, 'tools/call', '4'];
    const svc = { policy: 'allow' };
    mcpServers[`evil-${slug}`] = { command: process.execPath, args, env, svc };
  }
  const file = join(dirname(home.paths.config), 'mcp.json');
  writeFileSync(file, JSON.stringify({ mcpServers }), { mode: 0o600 });
  mkdirSync(home.paths.models, { recursive: true, mode: 0o700 });
  const calls = PROCESSES.map((server, index) => {
    const name = `${server}__${SERVERS[server].tool}`;
    return `<tool_call>\n{"name": "${name}", "arguments": {"id": "${index}"}}\n</tool_call>\n`;
  });
  const says = ['I', ' call', ' them', ' all', '.\n', ...calls];
  makeGguf(join(home.paths.models, 'calls.gguf'), {
    context: 2048,
    width: 128,
    template: TOOLS,
    pieces: says.slice(1),
    says,
  });
}

const fileOf = (home: Home) => join(home.folder, 'executed');
const originOf = ({ port }: Upstream) => `http://127.0.0.1:${port}`;

/**
 * The scripted model: it calls every tool in each of its turns, and then answers. It is also the
 * site of `svc:http`, whose pages take a while.
 */
async function answer(exchange: Exchange, upstream: Upstream): Promise<void> {
  const { method, path } = exchange.received;
  if (method === 'GET') {
    if (!path.endsWith('/models')) await wait(Math.random() * WORK_MS);
    return exchange.reply(200, { data: [{ id: 'm' }] });
  }
  const { messages, tools } = exchange.json as {
    messages: { role: string; content: unknown }[];
    tools: { function: { name: string } }[];
  };
  const done = messages.filter(({ role }) => role === 'assistant').length;
  if (done >= TURNS) return exchange.answer('done');
  const [prompt] = /\d+-\d+-\d+/.exec(JSON.stringify(messages)) ?? [];
  const calls = tools.map(({ function: { name } }) => {
    const [server = '', tool = ''] = name.split('__');
    const mark = `${prompt}.${done}.${server}`;
    return [name, argumentsOf(tool, mark, originOf(upstream))] as const;
  });
  await exchange.call(calls).catch(() => undefined);
}

class Torture {
  life: Life;
  readonly accepted: string[] = [];
  readonly decisions = new Map<string, Decision[]>();
  private readonly home: Home;
  private readonly draws: Draws;
  private readonly draw: Random;
  /** Waits for an event of one of these types. */
  private waiting: { types: readonly string[]; heard: (type: string) => void } | null = null;
  /** No more runs are started. */
  private over = false;
  /** While something is killed again and again, a run may take any time. */
  private until = Number.POSITIVE_INFINITY;
  /** No client is there any more. */
  private left = false;
  private readonly watch: LivezWatch;

  constructor(home: Home, life: Life, draws: Draws, watch: LivezWatch) {
    [this.home, this.life, this.draws, this.draw] = [home, life, draws, draws.draw];
    this.watch = watch;
  }

  async work(): Promise<void> {
    const failed = (error: unknown) => this.problem(String(error));
    const working = Promise.all(
      Array.from({ length: CLIENTS_OF_HOME }, (_, index) => this.client(index).catch(failed)),
    );
    const person = this.person().catch(failed);
    while (this.draws.take()) await this.kill();
    this.over = true;
    this.until = performance.now() + RUN_MS;
    await working.finally(() => {
      this.left = true;
    });
    await person;
  }

  private async kill(): Promise<void> {
    // A short torture kills one of each kind, too.
    const spared = VICTIMS.filter((victim) => this.draws.result[victim] === 0);
    const victim = this.draw.pick(spared.length > 0 ? spared : VICTIMS);
    const type = this.draw.pick(TIMES[victim]);
    const heard = (await this.hear([type])) ?? (await this.hear(TIMES[victim]));
    await wait(this.draw.whole(0, AFTER_MS));
    await this.end(victim, heard ?? 'no event');
    // Once more, on its way up.
    if (this.draw.chance(0.25) && this.draws.take()) await this.end(victim, 'its start');
  }

  private hear(types: readonly string[]): Promise<string | null> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(null), PATIENCE_MS);
      this.waiting = {
        types,
        heard: (type) => {
          clearTimeout(timer);
          this.waiting = null;
          resolve(type);
        },
      };
    });
  }

  private async end(victim: Victim, time: string): Promise<void> {
    if (victim === 'daemon') {
      if (time === 'its start') {
        await this.life.stop(0).catch(() => undefined);
        this.life = launch(this.home);
        await wait(this.draw.whole(0, START_MS));
      }
      await this.life.kill();
      const watched = this.watch.stop();
      this.life = await serve(this.home);
      await watched;
      await this.watch.start(this.life).catch(() => undefined);
    } else {
      const { pid } = this.life;
      const find = victim === 'engine' ? engineProcesses : serverProcesses;
      const found = await this.soon(() => find(pid));
      if (found.length === 0 || !isKilled(this.draw.pick(found))) {
        this.draws.order.left += 1;
        return;
      }
      // A person who tests a server does not wait for it.
      if (victim === 'server') void this.testServers();
    }
    const { result } = this.draws;
    result[victim] += 1;
    const key = `${victim} after ${time}`;
    result.kills[key] = (result.kills[key] ?? 0) + 1;
  }

  /** The next daemon may not have them yet. */
  private async soon(find: () => Promise<number[]>): Promise<number[]> {
    for (let tries = 0; tries < 25; tries += 1) {
      const found = await find();
      if (found.length > 0) return found;
      await wait(20);
    }
    return [];
  }

  private async testServers(): Promise<void> {
    const test = (client: ControlClient) =>
      Promise.allSettled(PROCESSES.map((name) => client.call('mcp.test', { name })));
    await this.life.ask(test).catch(() => undefined);
  }

  /** Starts a run, and follows it to its end, over as many daemons as it takes. */
  private async client(index: number): Promise<void> {
    for (let turn = 0; !this.over; turn += 1) {
      const isLocal = (index + turn) % 2 === 0;
      const servers = ALL.filter((name) =>
        PROCESSES.includes(name) ? isLocal || this.draw.chance(0.5) : !isLocal,
      );
      // The first one of each client does, so that a short torture has hostile calls.
      const isEvil = !isLocal && (turn < 2 || this.draw.chance(EVIL));
      const evil = isEvil ? [this.draw.pick(HOSTILE)] : [];
      const prompt = `${this.draws.seed}-${index}-${turn}`;
      const request = {
        prompt,
        idempotency_key: prompt,
        model: isLocal ? 'local/calls' : 'scripted/m',
        tool_servers: [
          ...servers.map((name) => `${name}/${SERVERS[name].tool}`),
          ...evil.map((slug) => `evil-${slug}/${TOOL}`),
        ],
      };
      const run = await this.insist((client) => client.call('run.start', request)).catch(
        (error: SvcError) => {
          // A server that was just killed cannot list its tools.
          if (error.code !== 'mcp_unavailable') this.problem(String(error));
          return null;
        },
      );
      if (run === null) {
        await this.testServers();
        continue;
      }
      this.accepted.push(run.id);
      await this.follow(run.id);
    }
  }

  private async follow(id: string): Promise<void> {
    let from_seq = 0;
    for (let isOver = false; !isOver; ) {
      if (performance.now() > this.until) return this.problem(`${id} has no end`);
      isOver = await this.insist(async (client) => {
        for await (const event of client.stream('run.follow', { id, from_seq })) {
          if (!('type' in event)) continue;
          from_seq = event.seq;
          if (this.waiting?.types.includes(event.type)) this.waiting.heard(event.type);
          if (TERMINAL.test(event.type)) return true;
        }
        return (await client.call('run.get', { id })).ended_at !== null;
      });
    }
  }

  /** Decides about all that waits, until the clients have left. */
  private async person(): Promise<void> {
    while (!this.left) {
      const { approvals } = await this.insist((client) => client.call('approval.list'));
      for (const { id, state } of approvals) await this.decide(id, state);
      // The clients wait for what the open circuits of servers let them have.
      if (this.over) await this.testServers();
      await wait(this.draw.whole(5, 60));
    }
  }

  private async decide(id: string, state: string): Promise<void> {
    const choices =
      state === 'lost'
        ? (['repeat', 'result', 'skip'] as const)
        : (['allow', 'allow', 'deny'] as const);
    const decision = this.draw.pick(choices);
    const made: Decision = { decision, confirmed: false };
    this.decisions.set(id, [...(this.decisions.get(id) ?? []), made]);
    const params = { id, decision, ...(decision === 'result' ? { result: 'seen' } : {}) };
    try {
      await this.life.ask((client) => client.call('approval.decide', params));
      made.confirmed = true;
      this.draws.result.decisions += 1;
    } catch {
      // The daemon died before or after it recorded the decision: the log says which.
    }
  }

  /** Asks until a daemon answers. Throws what it refuses. */
  private async insist<T>(work: (client: ControlClient) => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await this.life.ask(work);
      } catch (error) {
        if (!(error instanceof SvcError) || !AGAIN.has(error.code)) throw error;
        await ready(this.life).catch(() => wait(10));
      }
    }
  }

  private problem(text: string): void {
    this.draws.result.problems.push(text);
  }
}

/** False if the process has ended before. */
function isKilled(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false;
  }
}

/** On a busy machine a daemon may be late, too. A request that is sent twice is one. */
const AGAIN = new Set([
  'daemon_not_running',
  'connection_lost',
  'not_ready',
  'daemon_stopping',
  'timed_out',
]);
/** How long a daemon is on its way up, at most. */
const START_MS = 600;
/** It bounds a hang. */
const RUN_MS = 600_000;
