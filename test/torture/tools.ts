import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { SvcError } from '../../src/errors.ts';
import { processTree } from '../../src/providers/local/memory-watch.ts';
import type { ControlClient } from '../../src/transport/control/client.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { SCRIPTED } from '../helpers/tool-servers.ts';
import { type Exchange, Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, ready, serve } from './daemon.ts';
import { type Random, random } from './random.ts';

/**
 * Calls of tools under SIGKILL of the daemon and of the servers. Clients start runs, and a person
 * decides. A server appends a line to a file for each execution. In the end the file, the log and
 * the answers to the person are compared.
 */
export interface ToolsResult {
  kills: Record<string, number>;
  runs: number;
  calls: number;
  executions: number;
  /** Approvals and other decisions that the daemon confirmed. */
  decisions: number;
  /** Calls that were cut off, and that a person decided about. */
  cut_off: number;
  twice: number;
  lost: number;
  problems: string[];
}

/** How the calls of each server are decided, and whether they may be repeated. */
const SERVERS = {
  free: { tool: 'count', svc: { policy: 'allow' }, mayRepeat: false },
  careful: { tool: 'count', svc: { policy: 'ask' }, mayRepeat: false },
  safe: { tool: 'put', svc: { policy: 'allow', trusted: true }, mayRepeat: true },
} as const;
type Server = keyof typeof SERVERS;
const NAMES = Object.keys(SERVERS) as Server[];
const TURNS = 2;
/** A call waits at most so long before its work, and again after it. */
const WORK_MS = 25;
/** The longest time between two kills. */
const PAUSE_MS = 400;

export async function tortureTools(options: {
  kills: number;
  clients: number;
  seed: number;
  signal: AbortSignal;
}): Promise<ToolsResult> {
  const home = makeHome();
  const upstream = await Upstream.start(answer);
  try {
    configure(home, upstream.base_url);
    const torture = new Torture(home, await serve(home), random(options.seed));
    try {
      await torture.work(options);
      await torture.compare();
    } finally {
      await torture.life.stop(0);
    }
    return torture.result;
  } finally {
    await home.close();
    await upstream.stop();
  }
}

function configure(home: Home, base_url: string): void {
  const executed = fileOf(home);
  writeFileSync(executed, '');
  const providers = { scripted: { base_url, model: 'm' } };
  writeFileSync(home.paths.config, JSON.stringify({ providers, default_provider: 'scripted' }), {
    mode: 0o600,
  });
  const env = { COUNT_FILE: executed, WORK_MS: String(WORK_MS) };
  const mcpServers = Object.fromEntries(
    NAMES.map((name) => [
      name,
      { command: process.execPath, args: [SCRIPTED], env, svc: SERVERS[name].svc },
    ]),
  );
  const file = join(dirname(home.paths.config), 'mcp.json');
  writeFileSync(file, JSON.stringify({ mcpServers }), { mode: 0o600 });
}

const fileOf = (home: Home) => join(home.folder, 'executed');

/** The model: a call in each of its turns, then an answer. */
async function answer(exchange: Exchange): Promise<void> {
  if (exchange.received.path.endsWith('/models'))
    return exchange.reply(200, { data: [{ id: 'm' }] });
  const { messages, tools = [] } = exchange.json as {
    messages: { role: string }[];
    tools?: { function: { name: string } }[];
  };
  const done = messages.filter(({ role }) => role === 'tool').length;
  const name = tools.map((tool) => tool.function.name).find((each) => /__(count|put)$/.test(each));
  if (done >= TURNS || name === undefined) return exchange.answer('done');
  await exchange.call([name], { id: String(done) });
}

/** What the person said about a call. */
interface Decision {
  decision: string;
  /** The daemon confirmed it. */
  confirmed: boolean;
}

class Torture {
  life: Life;
  readonly result: ToolsResult = {
    kills: { daemon: 0, server: 0 },
    runs: 0,
    calls: 0,
    executions: 0,
    decisions: 0,
    cut_off: 0,
    twice: 0,
    lost: 0,
    problems: [],
  };
  private readonly home: Home;
  private readonly draw: Random;
  private readonly accepted = new Map<string, Server>();
  private readonly decisions = new Map<string, Decision[]>();
  /** No more runs are started. */
  private over = false;
  /** No client is there any more. */
  private left = false;

  constructor(home: Home, life: Life, draw: Random) {
    [this.home, this.life, this.draw] = [home, life, draw];
  }

  async work({ kills, clients, signal }: { kills: number; clients: number; signal: AbortSignal }) {
    const working = Promise.all(Array.from({ length: clients }, (_, index) => this.client(index)));
    const person = this.person();
    for (let killed = 0; killed < kills && !signal.aborted; killed += 1) {
      await wait(this.draw.whole(0, PAUSE_MS));
      await this.kill();
    }
    this.over = true;
    await working.finally(() => {
      this.left = true;
    });
    await person;
  }

  private async kill(): Promise<void> {
    const victim = this.draw.pick(['daemon', 'server'] as const);
    const { life } = this;
    if (victim === 'server') {
      const children = (await processTree(life.pid)).filter((pid) => pid !== life.pid);
      if (children.length === 0) return;
      try {
        process.kill(this.draw.pick(children), 'SIGKILL');
      } catch {
        return;
      }
    } else {
      await life.kill();
      this.life = await serve(this.home);
    }
    this.result.kills[victim] = (this.result.kills[victim] ?? 0) + 1;
  }

  /** Starts a run, and waits for its end, over as many daemons as it takes. */
  private async client(index: number): Promise<void> {
    for (let turn = 0; !this.over; turn += 1) {
      const server = this.draw.pick(NAMES);
      const request = {
        prompt: `${index}-${turn}`,
        idempotency_key: `${index}-${turn}`,
        tool_servers: [`${server}/${SERVERS[server].tool}`],
      };
      const run = await this.insist((client) => client.call('run.start', request)).catch(
        (error: SvcError) => {
          // A server that was just killed cannot list its tools.
          if (error.code !== 'mcp_unavailable') this.result.problems.push(String(error));
          return null;
        },
      );
      if (run === null) {
        await wait(PAUSE_MS);
        continue;
      }
      this.accepted.set(run.id, server);
      await waitFor(`${run.id} has ended`, () => this.isOver(run.id), { within_ms: RUN_MS });
    }
  }

  private async isOver(id: string): Promise<boolean> {
    const record = await this.insist((client) => client.call('run.get', { id }));
    return record.ended_at !== null;
  }

  /** Decides about all that waits, until the clients have left. */
  private async person(): Promise<void> {
    while (!this.left) {
      const { approvals } = await this.insist((client) => client.call('approval.list'));
      for (const { id, state } of approvals) await this.decide(id, state);
      await wait(this.draw.whole(1, 20));
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
      this.result.decisions += 1;
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

  /** Compares the log with the executions and with the decisions that were confirmed. */
  async compare(): Promise<void> {
    const { result } = this;
    const executed = new Map<string, number>();
    for (const line of readFileSync(fileOf(this.home), 'utf8').split('\n').filter(Boolean)) {
      result.executions += 1;
      executed.set(line, (executed.get(line) ?? 0) + 1);
    }
    for (const [run_id, server] of this.accepted) {
      result.runs += 1;
      const { events } = await this.life.ask((client) =>
        client.call('log.stream', { stream: run_id, from_version: 0, limit: 1000 }),
      );
      const ends = events.filter(({ type }) => TERMINAL.test(type));
      if (ends.length !== 1) this.problem(`${run_id} has ${ends.length} ends`);
      const numbers = events
        .map(({ data }) => data.call)
        .filter((call) => typeof call === 'number');
      const calls = new Set(numbers);
      for (const call of calls) {
        result.calls += 1;
        const own = events.filter(({ data }) => data.call === call);
        this.compareCall(`${run_id}.${call}`, server, own, executed.get(`${run_id}.${call}`) ?? 0);
        executed.delete(`${run_id}.${call}`);
      }
    }
    for (const id of executed.keys()) this.problem(`${id} was executed, and no run has it`);
    const { kills } = result;
    for (const [victim, count] of Object.entries(kills))
      if (count === 0) this.problem(`no ${victim} was killed`);
  }

  private compareCall(
    id: string,
    server: Server,
    events: readonly { type: string; data: Record<string, unknown> }[],
    executions: number,
  ): void {
    const of = (type: string) => events.filter((event) => event.type === `run.tool_${type}`);
    const [allowed, denied, started] = [of('allowed'), of('denied'), of('started')];
    const repeats = of('decided').filter(({ data }) => data.decision === 'repeat').length;
    if (allowed.length + denied.length > 1) this.problem(`${id} was decided more than once`);
    if (started.length > 0 && allowed.length === 0) this.problem(`${id} began without an approval`);
    const { mayRepeat } = SERVERS[server];
    if (!mayRepeat && started.length > 1 + repeats) {
      this.result.twice += 1;
      this.problem(`${id} began ${started.length} times, with ${repeats} repeats`);
    }
    if (executions > started.length) {
      this.result.twice += 1;
      this.problem(`${id} was executed ${executions} times, and began ${started.length} times`);
    }
    const finished = of('finished').filter(({ data }) => data.is_error !== true);
    if (finished.length > 0 && executions === 0) {
      this.result.lost += 1;
      this.problem(`${id} has a result, and was never executed`);
    }
    const made = this.decisions.get(id) ?? [];
    if (of('decided').length > 0) this.result.cut_off += 1;
    const recorded = [
      ...allowed.map(() => 'allow'),
      ...denied.map(() => 'deny'),
      ...of('decided').map(({ data }) => String(data.decision)),
    ];
    for (const { decision } of made.filter(({ confirmed }) => confirmed)) {
      const at = recorded.indexOf(decision);
      if (at < 0) {
        this.result.lost += 1;
        this.problem(`${id}: the decision ${decision} was confirmed, and is not in the log`);
      } else recorded.splice(at, 1);
    }
  }

  private problem(text: string): void {
    this.result.problems.push(text);
  }
}

const AGAIN = new Set(['daemon_not_running', 'connection_lost', 'not_ready', 'daemon_stopping']);
const TERMINAL = /^run\.(completed|failed|cancelled|timed_out|interrupted)$/;
/** It bounds a hang. A server whose circuit is open is tried again after up to minutes. */
const RUN_MS = 600_000;
