import { randomInt } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { readRuntimeFile } from '../../src/home/runtime-file.ts';
import { linksOf } from '../helpers/descriptors.ts';
import { type Home, makeHome, type Outcome } from '../helpers/svc.ts';
import { type Exchange, Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';

/**
 * Many processes that want the daemon of one home at the same time.
 *
 * 1. The home has fixed ports, as a configured one has. So two daemons would meet at them too.
 * 2. The losers of the race wait for the winner. None ends with an error, except a daemon in the
 *    foreground, which says that one runs already.
 * 3. After each round there is one daemon.
 */
export interface OwnersResult {
  rounds: number;
  /** Whole answers. */
  answers: number;
  kills: number;
  /** How often each command ended with each code: `run 0`. */
  ends: Record<string, number>;
  problems: string[];
}

export interface OwnersOptions {
  rounds: number;
  /** Processes at once on a cold home. */
  crowd: number;
  signal: AbortSignal;
}

const FOLLOWERS = 4;
const ANSWER = 'one answer, whole';

export async function tortureOwners(options: OwnersOptions): Promise<OwnersResult> {
  const result: OwnersResult = { rounds: 0, answers: 0, kills: 0, ends: {}, problems: [] };
  while (result.rounds < options.rounds && !options.signal.aborted) {
    const upstream = await Upstream.start();
    const home = makeHome({ SVC_HTTP: undefined, SVC_GRPC: undefined });
    const round = new Round(home, upstream, result);
    try {
      await round.configure();
      await round.crowd(options.crowd);
      const last = Math.min(options.rounds, result.rounds + HOME_ROUNDS);
      for (; result.rounds < last && !options.signal.aborted; result.rounds += 1) {
        await round.killed();
        await round.stopping();
      }
    } catch (error) {
      result.problems.push(String(error));
      result.rounds += 1;
    } finally {
      await home.close();
      await upstream.stop();
    }
  }
  return result;
}

/** A new home, and so a new crowd, after so many rounds. */
const HOME_ROUNDS = 25;

class Round {
  private readonly home: Home;
  private readonly upstream: Upstream;
  private readonly result: OwnersResult;

  constructor(home: Home, upstream: Upstream, result: OwnersResult) {
    this.home = home;
    this.upstream = upstream;
    this.result = result;
  }

  async configure(): Promise<void> {
    const [http, grpc] = await freePorts(2);
    const settings = {
      http: `127.0.0.1:${http}`,
      grpc: `127.0.0.1:${grpc}`,
      providers: { mock: { base_url: this.upstream.base_url } },
    };
    writeFileSync(this.home.paths.config, JSON.stringify(settings), { mode: 0o600 });
    this.upstream.scenario = answer;
  }

  /** All at once, and no daemon runs. */
  async crowd(count: number): Promise<void> {
    await this.all(Array.from({ length: count }, () => this.run()));
    this.oneDaemon('after a crowd');
  }

  /** `kill -9` while some follow their answers. Others start the daemon again at the same time. */
  async killed(): Promise<void> {
    const { home, upstream } = this;
    await this.command('start');
    const held: Exchange[] = [];
    upstream.scenario = (exchange) =>
      exchange.received.path.endsWith('/models') ? answer(exchange) : held.push(exchange);
    const following = Array.from({ length: FOLLOWERS }, () => this.run());
    await waitFor('the provider is asked by all', () => held.length === FOLLOWERS);
    upstream.scenario = answer;
    const found = readRuntimeFile(home.paths.runtime);
    if (found.kind !== 'present') throw new Error('a daemon runs and has no runtime file');
    process.kill(found.file.pid, 'SIGKILL');
    this.result.kills += 1;
    const supervisor = home.spawn(['serve', '--json']);
    await this.all([...following, this.command('start'), this.command('start'), this.run()]);
    this.oneDaemon('after a kill');
    // It is the daemon, and `stopping` ends it; or it says that there is one.
    if (daemonsOf(home.folder)?.includes(supervisor.child.pid ?? 0) === true) return;
    const { code, stderr } = await supervisor.ended;
    this.count('serve', code);
    if (code !== 1 || !stderr.includes('daemon_already_running'))
      this.result.problems.push(`serve ended with ${code}: ${stderr}`);
  }

  /** Others start the daemon while it stops. */
  async stopping(): Promise<void> {
    await this.all([this.command('stop'), this.command('start'), this.command('start')]);
    await this.command('start');
    await this.all([this.command('restart'), this.command('start'), this.run()]);
    this.oneDaemon('after a stop');
  }

  private async all(commands: Promise<unknown>[]): Promise<void> {
    await Promise.all(commands);
  }

  private async run(): Promise<void> {
    const { code, stdout } = await this.command('run', 'hi', '--provider', 'mock');
    if (code === 0 && stdout === `${ANSWER}\n`) this.result.answers += 1;
    else this.result.problems.push(`the answer is ${JSON.stringify(stdout)}`);
  }

  private async command(...args: string[]): Promise<Outcome> {
    const outcome = await this.home.svc(args);
    const { code, stderr } = outcome;
    this.count(args[0] ?? '', code);
    if (code !== 0) this.result.problems.push(`${args[0]} ended with ${code}: ${stderr}`);
    return outcome;
  }

  private count(command: string, code: number | null): void {
    const { ends } = this.result;
    ends[`${command} ${code}`] = (ends[`${command} ${code}`] ?? 0) + 1;
  }

  private oneDaemon(when: string): void {
    const pids = daemonsOf(this.home.folder);
    if (pids !== null && pids.length !== 1)
      this.result.problems.push(`${pids.length} daemons ${when}: ${pids}`);
  }
}

function answer(exchange: Exchange): unknown {
  return exchange.received.path.endsWith('/models')
    ? exchange.reply(200, { data: [{ id: 'm' }] })
    : exchange.answer(ANSWER);
}

/** Processes that listen on the local socket of this home. Null: the system does not say. */
function daemonsOf(folder: string): number[] | null {
  if (process.platform !== 'linux') return null;
  const inodes = readFileSync('/proc/net/unix', 'latin1')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[7] === join(folder, 'svc.sock') && fields[3] === LISTENS)
    .map((fields) => `socket:[${fields[6]}]`);
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger);
  return pids.filter((pid) => linksOf(pid).some((name) => inodes.includes(name)));
}

/** The flag of a socket that accepts connections. */
const LISTENS = '00010000';

/** Ports that are free now. No outgoing connection takes one: they lie below its range. */
async function freePorts(count: number): Promise<number[]> {
  const free: number[] = [];
  while (free.length < count) {
    const port = randomInt(20_000, 30_000);
    const server = createServer();
    const isFree = await new Promise((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true));
    });
    if (isFree) await new Promise((resolve) => server.close(resolve));
    if (isFree && !free.includes(port)) free.push(port);
  }
  return free;
}
