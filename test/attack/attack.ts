import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { type Home, makeHome } from '../helpers/svc.ts';
import { enginePid, type Life, serve } from '../torture/daemon.ts';
import type { Watched } from './watcher.ts';

/**
 * An attack on the built daemon, and what the daemon must show throughout: it lives, `/livez`
 * answers, and memory stays in its bound.
 *
 * 1. Each attack is one module of `attacks/` that exports `attack`. Its file name is its name.
 * 2. The short form runs in `npm test`, the long form in `npm run attack`. Only the long form
 *    judges time.
 * 3. An attack is bounded in time and count, and talks to loopback only.
 */
export interface Attack {
  /** What the attacker does, in a sentence. */
  summary: string;
  /** Environment of the daemon, such as smaller limits for the short form. */
  env?: (scale: Scale) => NodeJS.ProcessEnv;
  /** What `config.json` holds. */
  config?: (scale: Scale) => Promise<object> | object;
  /** What the daemon's process may grow by, in MiB. */
  memory_mib: Record<Scale, number>;
  /** Longest answer of `/livez` in the long form, in milliseconds. */
  livez_ms?: number;
  /** Attacks, and throws when a promise is broken. */
  run: (victim: Victim, scale: Scale) => Promise<void>;
  /** Ends what `config` or `run` started. */
  clean?: () => Promise<unknown> | unknown;
}

export type Scale = 'short' | 'long';

/** The daemon under attack. */
export interface Victim {
  home: Home;
  life: Life;
  pid: number;
  host: string;
  port: number;
  /** `http://127.0.0.1:port` */
  url: string;
  token: string;
  /** The header that the token travels in. */
  bearer: Record<string, string>;
  /** Resident memory of the daemon now, in MiB. */
  rss_mib(): number;
  /** Pid of the engine process, once its model is loaded. */
  enginePid(): Promise<number>;
}

export interface AttackOutcome extends Watched {
  name: string;
  /** Resident memory in MiB: before, the highest, and at the end. */
  before_mib: number;
  peak_mib: number;
  after_mib: number;
  seconds: number;
  /** What did not hold, in sentences. */
  problems: string[];
}

const FOLDER = fileURLToPath(new URL('./attacks', import.meta.url));

export function attackNames(): string[] {
  return globSync('*.ts', { cwd: FOLDER })
    .map((file) => basename(file, '.ts'))
    .sort();
}

export async function loadAttack(name: string): Promise<Attack> {
  const { attack } = (await import(pathToFileURL(`${FOLDER}/${name}.ts`).href)) as {
    attack: Attack;
  };
  return attack;
}

/** Starts a daemon in a temporary home, attacks it, and reports the cost. */
export async function runAttack(name: string, scale: Scale): Promise<AttackOutcome> {
  const attack = await loadAttack(name);
  const home = makeHome(attack.env?.(scale));
  try {
    await writeConfig(home, await attack.config?.(scale));
    const life = await serve(home);
    const victim = await meet(home, life);
    const before_mib = victim.rss_mib();
    const began = performance.now();
    const watch = await startWatch(victim);
    const problems: string[] = [];
    await attack.run(victim, scale).catch((error: Error) => problems.push(error.message));
    const watched = await watch.stop();
    const outcome: AttackOutcome = {
      name,
      before_mib,
      peak_mib: isAlive(life) ? highest_mib(life.pid) : watched.seen_mib,
      after_mib: isAlive(life) ? victim.rss_mib() : 0,
      seconds: Math.round((performance.now() - began) / 100) / 10,
      ...watched,
      problems,
    };
    problems.push(...judge(attack, scale, outcome, life));
    return outcome;
  } finally {
    await attack.clean?.();
    await home.close();
  }
}

function judge(attack: Attack, scale: Scale, outcome: AttackOutcome, life: Life): string[] {
  const problems: string[] = [];
  if (!isAlive(life)) problems.push(`The daemon ended: ${life.printed().slice(-500)}`);
  const grown = outcome.peak_mib - outcome.before_mib;
  if (grown > attack.memory_mib[scale])
    problems.push(`Memory grew by ${grown} MiB; ${attack.memory_mib[scale]} are allowed.`);
  if (outcome.livez_failures.length > 0)
    problems.push(
      `/livez failed ${outcome.livez_failures.length} times: ${outcome.livez_failures[0]}.`,
    );
  if (outcome.livez_asked === 0) problems.push('/livez was never asked.');
  const bound_ms = attack.livez_ms ?? 1000;
  if (scale === 'long' && outcome.livez_worst_ms > bound_ms)
    problems.push(`/livez took ${outcome.livez_worst_ms} ms; ${bound_ms} are allowed.`);
  return problems;
}

async function writeConfig(home: Home, config: object | undefined): Promise<void> {
  if (config === undefined) return;
  mkdirSync(dirname(home.paths.config), { recursive: true, mode: 0o700 });
  writeFileSync(home.paths.config, JSON.stringify(config));
}

async function meet(home: Home, life: Life): Promise<Victim> {
  const { addresses } = await life.ask((client) => client.call('status'));
  const url = addresses.http ?? '';
  const port = Number(new URL(url).port);
  const token = readFileSync(home.paths.token, 'utf8').trim();
  return {
    home,
    life,
    pid: life.pid,
    host: `127.0.0.1:${port}`,
    port,
    url,
    token,
    bearer: { authorization: `Bearer ${token}` },
    rss_mib: () => status_mib(life.pid, 'VmRSS'),
    enginePid: () => enginePid(life),
  };
}

/**
 * A separate process asks `/livez`, so that the attacker's work does not count as the daemon's. One
 * process watches all daemons, one after the other.
 */
async function startWatch({ port, pid }: Victim): Promise<{ stop(): Promise<Watched> }> {
  watcher ??= fork(fileURLToPath(new URL('./watcher.ts', import.meta.url)));
  const child = watcher;
  const answer = async (message: object | 'stop'): Promise<unknown> => {
    const answered = once(child, 'message');
    child.send(message);
    return (await answered)[0];
  };
  await answer({ port, pid });
  return { stop: async () => (await answer('stop')) as Watched };
}

let watcher: ChildProcess | null = null;

/** Ends the process that watches, so that this one can end. */
export function endWatch(): void {
  watcher?.disconnect();
}

export function isAlive(life: Life): boolean {
  return life.child.exitCode === null && life.child.signalCode === null;
}

/** The highest resident memory of the whole life of a process, in MiB. */
function highest_mib(pid: number): number {
  return status_mib(pid, 'VmHWM');
}

/** A size that the system counts for a process, in MiB; 0 when it is gone. */
export function status_mib(pid: number, field: string): number {
  try {
    const kib = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(
      readFileSync(`/proc/${pid}/status`, 'utf8'),
    )?.[1];
    return Math.round(Number(kib ?? 0) / 1024);
  } catch {
    return 0;
  }
}
