import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import * as assert from 'uvu/assert';
import { daemonMachine } from '../../machines/daemon/chart.ts';
import { describe } from '../../machines/describe.ts';
import { providersFile } from '../../src/config/providers/providers-file.ts';
import { readRuntimeFile } from '../../src/home/runtime-file.ts';
import type { StoredEvent } from '../../src/kernel/store/port.ts';
import { createSqliteStore } from '../../src/kernel/store/sqlite/sqlite.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { engineProcesses } from '../helpers/engine-processes.ts';
import { grpcHealth } from '../helpers/grpc-health.ts';
import { type Home, makeHome, type Outcome, type Started } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Edge, type MachineName, Walked } from './edges.ts';
import { closeLater } from './opened.ts';
import { ScriptedUpstream } from './upstream.ts';

/** Tags of the daemon's states: what each door must say. */
const TAGS = new Map(describe(daemonMachine).states.map(({ path, tags }) => [path, tags]));

export interface Report {
  state_path: string;
  engine: { state: string; pid: number | null };
  engines: { model: string | null }[];
  providers: { id: string; state: string; faulty_models: { state: string }[] }[];
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

/** Limits and settings of one boot, without their prefix: `{ LIMIT_START_MS: 1000 }`. */
export type Settings = Record<string, string | number>;

/**
 * One home in which real daemon processes boot one after the other. The test drives them from
 * outside: command line, HTTP, gRPC, signals and a scripted upstream. The walked edges come from
 * the event log only.
 */
export class Harness {
  readonly home: Home;
  readonly upstream: ScriptedUpstream;
  /** Ends everything. */
  readonly close = closeLater(() => this.end());
  private daemon: Started | null = null;
  private base = '';
  private grpc = '';

  private constructor(home: Home, upstream: ScriptedUpstream) {
    this.home = home;
    this.upstream = upstream;
  }

  /**
   * `engine: true`: with an engine whose model, asked greedily, never ends by itself; without it no
   * engine is started. `folder`: where its files lie. `$HOME` in `providers` is the home.
   */
  static async build(
    settings: Settings = {},
    options: { engine?: boolean; providers?: Record<string, object>; folder?: string } = {},
  ): Promise<Harness> {
    const upstream = await ScriptedUpstream.start();
    const home = makeHome({
      SVC_MODEL: options.engine ? 'endless' : 'absent',
      SVC_ENGINE_PRELOAD: String(options.engine === true),
      // The log of a full disk lives on it.
      SVC_LIMIT_RESERVE_BYTES: undefined,
      // The same model is hung and killed again and again.
      SVC_LIMIT_ENGINE_QUARANTINE_MS: '0',
      ...(options.folder === undefined ? {} : { SVC_HOME: options.folder }),
      ...prefixed(settings),
    });
    if (options.engine) {
      mkdirSync(home.paths.models, { recursive: true, mode: 0o700 });
      makeGguf(join(home.paths.models, 'endless.gguf'), { context: 4096, template: null });
    }
    mkdirSync(dirname(home.paths.config), { recursive: true, mode: 0o700 });
    const providers = Object.fromEntries(
      Object.entries(options.providers ?? { up: {} }).map(([id, own]) => [
        id,
        { base_url: upstream.base_url, model: 'm', ...own },
      ]),
    );
    const config = { default_provider: options.engine ? 'local' : 'up' };
    writeFileSync(home.paths.config, JSON.stringify(config));
    // As if commands had added them, so that commands can remove them.
    const text = JSON.stringify(providers).replaceAll('$HOME', home.folder);
    writeFileSync(providersFile(home.paths.config), text);
    return new Harness(home, upstream);
  }

  /** Starts a daemon, and waits for nothing. `node`: the program that runs it. */
  launch(
    settings: Settings = {},
    flags: readonly string[] = [],
    node: string = process.execPath,
  ): void {
    this.daemon = this.home.spawn(['serve', ...flags], { env: prefixed(settings), node });
  }

  /** Starts a daemon, waits until it is in one of these states, and returns which. */
  async start(
    states: string | readonly string[],
    settings: Settings = {},
    node?: string,
  ): Promise<string> {
    this.launch(settings, [], node);
    const addresses = await waitLong('the daemon shows its addresses', () => {
      if (this.hasEnded) throw new Error(`the daemon ended: ${this.daemon?.stderr()}`);
      const found = readRuntimeFile(this.home.paths.runtime);
      return (
        found.kind === 'present' &&
        found.file.pid === this.daemon?.child.pid &&
        found.file.addresses
      );
    });
    this.base = addresses.http ?? '';
    this.grpc = addresses.grpc ?? '';
    return this.until(states);
  }

  /** The same at known addresses, for states that do not show them. */
  async startAt(states: string | readonly string[], settings: Settings = {}): Promise<string> {
    for (let turn = 1; ; turn += 1) {
      const [http, grpc] = await freeAddresses();
      this.launch(settings, ['--http', http, '--grpc', grpc]);
      this.base = `http://${http}`;
      this.grpc = grpc;
      try {
        return await this.until(states);
      } catch (error) {
        // What was free may be another's by now.
        const isTaken = this.hasEnded && (await this.daemon?.ended)?.stderr.includes('port_in_use');
        if (!isTaken || turn === TURNS_MAX) throw error;
      }
    }
  }

  /** Of the present daemon. */
  get pid(): number {
    return this.daemon?.child.pid ?? 0;
  }

  get hasEnded(): boolean {
    const { exitCode = 0, signalCode = null } = this.daemon?.child ?? {};
    return exitCode !== null || signalCode !== null;
  }

  async report(): Promise<Report> {
    const headers = {
      authorization: `Bearer ${readFileSync(this.home.paths.token, 'utf8').trim()}`,
    };
    return (await (
      await fetch(`${this.base}/v1/runtime/health`, { ...BOUND, headers })
    ).json()) as Report;
  }

  /** Waits until the daemon is in one of these states, and returns which. */
  until(states: string | readonly string[]): Promise<string> {
    const wanted = [states].flat();
    const ask = async () => {
      const state = (await this.report().catch(() => null))?.state_path ?? '';
      if (wanted.includes(state)) return state;
      if (this.hasEnded)
        throw new Error(`the daemon ended, and was not seen ${wanted.join(' or ')}`);
      return false;
    };
    return waitLong(`the daemon is ${wanted.join(' or ')}`, ask, STATE_MS);
  }

  /**
   * Repeats a part until the log has this edge. A short state can be over before a busy machine
   * sees it. The part leaves no daemon behind. It gets the number of the try, and returns
   * `false` if it came too late.
   */
  async untilWalked(
    name: MachineName,
    edge: Edge,
    part: (turn: number) => Promise<unknown>,
  ): Promise<void> {
    for (let turn = 0; turn < TURNS_MAX; turn += 1) {
      if ((await part(turn)) !== false && (await this.walked()).of(name).has(edge)) return;
    }
    throw new Error(`not walked in ${TURNS_MAX} turns: ${edge}`);
  }

  /** Every door says what the tags of this state say. */
  async look(state: string): Promise<void> {
    const tags = TAGS.get(state) ?? [];
    const [live, ready] = [tags.includes('live'), tags.includes('ready')];
    const codes = await Promise.all(
      ['/livez', '/readyz', '/v1/runtime/health'].map(
        async (route) => (await fetch(this.base + route, BOUND)).status,
      ),
    );
    assert.equal(
      codes,
      [live, ready, ready].map((good) => (good ? 200 : 503)),
      `HTTP in ${state}`,
    );
    const serving = (good: boolean) => (good ? 'SERVING' : 'NOT_SERVING');
    assert.equal(
      await grpcHealth(this.grpc, ['svc.livez', 'svc.readyz', '']),
      [live, ready, ready].map(serving),
      `gRPC in ${state}`,
    );
    assert.is((await this.report()).state_path, state);
  }

  /** The same, and the command line too. */
  async lookClosely(state: string): Promise<void> {
    await this.look(state);
    const ready = TAGS.get(state)?.includes('ready') === true;
    const [status, health] = await Promise.all([
      this.home.svc(['status', '--json']),
      this.home.svc(['health']),
    ]);
    assert.is((JSON.parse(status.stdout) as Report).state_path, state, `svc status in ${state}`);
    assert.is(status.code, 0, `svc status in ${state}`);
    assert.is(health.code, ready ? 0 : 4, `svc health in ${state}`);
  }

  /** A refused lifecycle event names the state and the accepted events, and changes nothing. */
  async refuses(type: string, state: string, accepted: readonly string[]): Promise<void> {
    const { status, body } = await this.post('/v1/runtime/events', { type });
    assert.is(status, 409, `${type} in ${state}`);
    const { code, details } = body.error as {
      code: string;
      details: { state_path: string; accepted: string[] };
    };
    assert.is(code, 'event_refused');
    assert.equal([details.state_path, details.accepted], [state, accepted], `${type} in ${state}`);
    assert.is((await this.report()).state_path, state);
  }

  async post(path: string, body: unknown = {}): Promise<Answered> {
    const token = readFileSync(this.home.paths.token, 'utf8').trim();
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const response = await fetch(this.base + path, {
      ...BOUND,
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  }

  async get(path: string): Promise<unknown> {
    const token = readFileSync(this.home.paths.token, 'utf8').trim();
    return (
      await fetch(this.base + path, { ...BOUND, headers: { authorization: `Bearer ${token}` } })
    ).json();
  }

  /** Starts a run and returns its id. The prompt scripts the upstream. */
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
    const ask = async () => {
      const run = await this.show(id);
      seen = `${run.state} ${JSON.stringify(run.error ?? null)}`;
      return run.state === state && run;
    };
    return waitLong(`the run is ${state}`, ask).catch((error: unknown) => {
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

  /** When the present daemon began its start, in ms since 1970: its deadlines count from there. */
  get startedAt(): number {
    const line = /^.*"msg":"svc \S+ starts.*$/m.exec(this.daemon?.stdout() ?? '')?.[0];
    assert.ok(line, 'the daemon has not logged that it starts');
    return Date.parse((JSON.parse(line) as { time: string }).time);
  }

  /** Asks the daemon to stop; does not wait for it. */
  async askToStop(mode: 'drain' | 'force', timeout_ms?: number): Promise<void> {
    assert.is(
      (
        await this.post('/v1/runtime/events', {
          type: 'stop_requested',
          mode,
          ...(timeout_ms === undefined ? {} : { timeout_ms }),
        })
      ).status,
      200,
    );
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
    const engines = await this.engines();
    this.signal('SIGKILL');
    await this.gone(null);
    goOn(engines);
  }

  /** Engine processes of the present daemon. */
  engines(): Promise<number[]> {
    return engineProcesses(this.pid);
  }

  /** The whole event log, without removed events. Only while no daemon runs here. */
  async events(): Promise<StoredEvent[]> {
    const store = createSqliteStore({
      database: this.home.paths.database,
      highWater: this.home.paths.highWater,
    });
    await store.open();
    const events: StoredEvent[] = [];
    try {
      for (
        let page = await store.readAll(1, PAGE);
        page.length > 0;
        page = await store.readAll((page.at(-1)?.seq ?? 0) + 1, PAGE)
      )
        events.push(...page);
    } finally {
      await store.close();
    }
    return events;
  }

  /** What was walked so far. Only while no daemon runs here. */
  async walked(): Promise<Walked> {
    const walked = new Walked();
    walked.addLog(await this.events());
    return walked;
  }

  /** Ends everything and returns the walked edges. */
  async leave(): Promise<Walked> {
    const walked = await this.walked();
    await this.close();
    return walked;
  }

  private async end(): Promise<void> {
    const engines = this.hasEnded ? [] : await this.engines();
    await this.home.close();
    goOn(engines);
    await this.upstream.stop();
  }
}

const PAGE = 1000;

/** Bounds a hang, also on a machine that is much slower. */
const WITHIN_MS = 100_000;

/** A state that has to be seen lasts longer. */
const STATE_MS = 40;

/** As `waitFor`, with that bound. */
export function waitLong<T>(
  event: string,
  ask: () => T | Promise<T>,
  every_ms = 100,
): Promise<Exclude<Awaited<T>, false | null | undefined>> {
  return waitFor(event, ask, { within_ms: WITHIN_MS, every_ms });
}

/** How often something is tried that may be met too early or too late. */
export const TURNS_MAX = 10;

/** No answer takes this long. */
const BOUND = {
  get signal() {
    return AbortSignal.timeout(WITHIN_MS);
  },
};

/** An engine that was stopped does not notice that its daemon is gone. */
function goOn(engines: readonly number[]): void {
  for (const pid of engines) {
    try {
      process.kill(pid, 'SIGCONT');
    } catch {
      // It has ended.
    }
  }
}

/** Two addresses that were free a moment ago. */
async function freeAddresses(): Promise<[string, string]> {
  const servers = [createServer(), createServer()];
  for (const server of servers)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const [http, grpc] = servers.map(
    (server) => `127.0.0.1:${(server.address() as AddressInfo).port}`,
  );
  for (const server of servers) await new Promise((resolve) => server.close(resolve));
  return [http as string, grpc as string];
}

function prefixed(settings: Settings): Record<string, string> {
  return Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [`SVC_${name}`, String(value)]),
  );
}
