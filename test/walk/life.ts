import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as assert from 'uvu/assert';
import { daemonMachine } from '../../machines/daemon.ts';
import { describe } from '../../machines/describe.ts';
import { readRuntimeFile } from '../../src/runtime-file.ts';
import { createSqliteStore } from '../../src/store/sqlite.ts';
import type { StoredEvent } from '../../src/store/store.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { grpcHealth } from '../helpers/grpc-health.ts';
import { type Home, makeHome, type Outcome, type Started } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Edge, Walked } from './edges.ts';
import { ScriptedUpstream } from './upstream.ts';

/** Tags of the daemon's states: what each door must say. */
const TAGS = new Map(describe(daemonMachine).states.map(({ path, tags }) => [path, tags]));

export interface Report {
  state_path: string;
  engine: { state: string; pid: number | null };
  providers: { id: string; state: string }[];
}

export interface RunView {
  id: string;
  state: string;
  output: string;
  error: { code: string } | null;
}

export interface Answered {
  status: number;
  body: Record<string, unknown>;
}

/** Limits and settings of one life, without their prefix: `{ LIMIT_START_MS: 1000 }`. */
export type Settings = Record<string, string | number>;

/**
 * The home of real daemon processes, that lead one life after the other in it, driven from outside only: command line, HTTP, gRPC, signals,
 * an upstream that does as it is told. What was walked is read from the event log, and from nothing else.
 */
export class House {
  readonly home: Home;
  readonly upstream: ScriptedUpstream;
  private daemon: Started | null = null;
  private base = '';
  private grpc = '';

  private constructor(home: Home, upstream: ScriptedUpstream) {
    this.home = home;
    this.upstream = upstream;
  }

  /** `engine: true`: with an engine whose model, asked greedily, never ends by itself; without it no engine is started. `folder`: where its files lie. */
  static async build(settings: Settings = {}, options: { engine?: boolean; providers?: Record<string, object>; folder?: string } = {}): Promise<House> {
    const upstream = await ScriptedUpstream.start();
    const home = makeHome({
      SVC_MODEL: options.engine ? 'endless' : 'absent',
      ...(options.folder === undefined ? {} : { SVC_HOME: options.folder }),
      ...prefixed(settings),
    });
    if (options.engine) {
      mkdirSync(home.paths.models, { recursive: true, mode: 0o700 });
      makeGguf(join(home.paths.models, 'endless.gguf'), { context: 4096 });
    }
    mkdirSync(dirname(home.paths.config), { recursive: true, mode: 0o700 });
    const providers = Object.fromEntries(
      Object.entries(options.providers ?? { up: {} }).map(([id, own]) => [id, { base_url: upstream.base_url, model: 'm', ...own }]),
    );
    writeFileSync(home.paths.config, JSON.stringify({ default_provider: options.engine ? 'local' : 'up', providers }));
    return new House(home, upstream);
  }

  /** Starts a daemon, and waits until it is in this state. `node`: the program that runs it. */
  async start(state: string, settings: Settings = {}, node: string = process.execPath): Promise<void> {
    this.daemon = this.home.spawn(['serve'], { env: prefixed(settings), node });
    const { pid } = this.daemon.child;
    const addresses = await waitFor('the daemon has told its addresses', () => {
      if (this.daemon?.child.exitCode !== null) throw new Error(`the daemon ended: ${this.daemon?.stderr()}`);
      const found = readRuntimeFile(this.home.paths.runtime);
      return found.kind === 'present' && found.file.pid === pid && found.file.addresses;
    });
    this.base = addresses.http ?? '';
    this.grpc = addresses.grpc ?? '';
    await this.until(state);
  }

  /** The same at addresses that are known before, for states in which nothing tells them. */
  async startAt(addresses: { http: string; grpc: string }, state: string, settings: Settings = {}): Promise<void> {
    this.daemon = this.home.spawn(['serve', '--http', addresses.http, '--grpc', addresses.grpc], { env: prefixed(settings) });
    this.base = `http://${addresses.http}`;
    this.grpc = addresses.grpc;
    await this.until(state);
  }

  async report(): Promise<Report> {
    return (await (await fetch(`${this.base}/v1/runtime/health`, BOUND)).json()) as Report;
  }

  async until(state: string): Promise<void> {
    await waitFor(
      `the daemon is ${state}`,
      async () => {
        if ((await this.report().catch(() => null))?.state_path === state) return true;
        if (this.daemon?.child.exitCode !== null) throw new Error(`the daemon ended, and was not seen ${state}`);
        return false;
      },
      { every_ms: 4 },
    );
  }

  /** Every door says what the tags of this state say. */
  async look(state: string): Promise<void> {
    const tags = TAGS.get(state) ?? [];
    const [live, ready] = [tags.includes('live'), tags.includes('ready')];
    const codes = await Promise.all(['/livez', '/readyz', '/v1/runtime/health'].map(async (route) => (await fetch(this.base + route, BOUND)).status));
    assert.equal(
      codes,
      [live, ready, ready].map((good) => (good ? 200 : 503)),
      `HTTP in ${state}`,
    );
    const serving = (good: boolean) => (good ? 'SERVING' : 'NOT_SERVING');
    assert.equal(await grpcHealth(this.grpc, ['svc.livez', 'svc.readyz', '']), [live, ready, ready].map(serving), `gRPC in ${state}`);
    assert.is((await this.report()).state_path, state);
  }

  /** The same, and the command line too. */
  async lookClosely(state: string): Promise<void> {
    await this.look(state);
    const ready = TAGS.get(state)?.includes('ready') === true;
    const [status, health] = await Promise.all([this.home.svc(['status', '--json']), this.home.svc(['health'])]);
    assert.is((JSON.parse(status.stdout) as Report).state_path, state, `svc status in ${state}`);
    assert.is(status.code, 0, `svc status in ${state}`);
    assert.is(health.code, ready ? 0 : 4, `svc health in ${state}`);
  }

  /** A lifecycle event that the state does not accept is refused, with the state and what is accepted, and changes nothing. */
  async refuses(type: string, state: string, accepted: readonly string[]): Promise<void> {
    const { status, body } = await this.post('/v1/runtime/events', { type });
    assert.is(status, 409, `${type} in ${state}`);
    const { code, details } = body.error as { code: string; details: { state_path: string; accepted: string[] } };
    assert.is(code, 'event_refused');
    assert.equal([details.state_path, details.accepted], [state, accepted], `${type} in ${state}`);
    assert.is((await this.report()).state_path, state);
  }

  async post(path: string, body: unknown = {}): Promise<Answered> {
    const token = readFileSync(this.home.paths.token, 'utf8').trim();
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const response = await fetch(this.base + path, { ...BOUND, method: 'POST', headers, body: JSON.stringify(body) });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  }

  async get(path: string): Promise<unknown> {
    const token = readFileSync(this.home.paths.token, 'utf8').trim();
    return (await fetch(this.base + path, { ...BOUND, headers: { authorization: `Bearer ${token}` } })).json();
  }

  /** Starts a run and returns its id; the prompt tells the upstream what to do. */
  async run(prompt: string, fields: Record<string, unknown> = {}): Promise<string> {
    const { status, body } = await this.post('/v1/runs', { prompt, ...fields });
    assert.is(status, 202, JSON.stringify(body));
    return body.id as string;
  }

  async show(id: string): Promise<RunView> {
    return (await this.get(`/v1/runs/${id}`)) as RunView;
  }

  async untilRun(id: string, state: string): Promise<RunView> {
    let seen = '';
    return waitFor(`the run is ${state}`, async () => {
      const run = await this.show(id);
      seen = run.state;
      return run.state === state && run;
    }).catch((error: unknown) => {
      throw new Error(`the run is ${seen}, not ${state}`, { cause: error });
    });
  }

  async cancel(id: string): Promise<void> {
    assert.is((await this.post(`/v1/runs/${id}/cancel`)).status, 200);
  }

  /** How often the present daemon has logged this message. */
  printed(message: string): number {
    return (this.daemon?.stdout() ?? '').split(`"msg":"${message}"`).length - 1;
  }

  /** Asks the daemon to stop; does not wait for it. */
  async askToStop(mode: 'drain' | 'force', timeout_ms?: number): Promise<void> {
    assert.is((await this.post('/v1/runtime/events', { type: 'stop_requested', mode, ...(timeout_ms === undefined ? {} : { timeout_ms }) })).status, 200);
  }

  signal(name: NodeJS.Signals): void {
    this.daemon?.child.kill(name);
  }

  /** Waits until the process is gone, with this exit code. */
  async gone(code: number | null): Promise<Outcome> {
    const outcome = await (this.daemon as Started).ended;
    assert.is(outcome.code, code, outcome.stderr);
    return outcome;
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await this.gone(null);
  }

  /**
   * Processes that the daemon has started: those of the engine. One that is not its own program yet does not count: until then the daemon
   * waits for it, and would wait on if it were stopped.
   */
  async engines(): Promise<number[]> {
    const pid = this.daemon?.child.pid ?? 0;
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
    const pids = children.trim().split(' ').filter(Boolean).map(Number);
    const programs = await Promise.all(pids.map((child) => readFile(`/proc/${child}/cmdline`, 'utf8').catch(() => '')));
    return pids.filter((_, index) => programs[index]?.includes('engine'));
  }

  /** The whole event log, without what was removed from it. Only while no daemon lives here. */
  async events(): Promise<StoredEvent[]> {
    const store = createSqliteStore({ database: this.home.paths.database, highWater: this.home.paths.highWater });
    await store.open();
    const events: StoredEvent[] = [];
    try {
      for (let page = await store.readAll(1, PAGE); page.length > 0; page = await store.readAll((page.at(-1)?.seq ?? 0) + 1, PAGE)) events.push(...page);
    } finally {
      await store.close();
    }
    return events;
  }

  /** Edges of the daemon so far. Only while no daemon lives here. */
  async walked(): Promise<Set<Edge>> {
    const walked = new Walked();
    walked.addLog(await this.events());
    return walked.of('daemon');
  }

  /** Ends everything and tells what was walked. */
  async leave(): Promise<Walked> {
    const walked = new Walked();
    try {
      walked.addLog(await this.events());
    } finally {
      await this.close();
    }
    return walked;
  }

  async close(): Promise<void> {
    await this.home.close();
    await this.upstream.stop();
  }
}

const PAGE = 1000;

/** No answer takes this long. */
const BOUND = {
  get signal() {
    return AbortSignal.timeout(60_000);
  },
};

function prefixed(settings: Settings): Record<string, string> {
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [`SVC_${name}`, String(value)]));
}
