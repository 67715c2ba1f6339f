import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProcessorTime } from './processor-time.ts';

/** The result of one test file. */
export interface Outcome {
  file: string;
  passed: number;
  failed: number;
  skipped: number;
  ms: number;
  /** Processor time of the file and all that it started, in seconds; null where it is unknown. */
  cpu_s: number | null;
  output: string;
  /** Problems besides failed tests, as sentences. */
  problems: string[];
}

export interface RunOptions {
  env: NodeJS.ProcessEnv;
  /** The file's own temporary folder, empty. Its name also identifies what the file has started. */
  folder: string;
  bound_ms: number;
  /**
   * Grace period for children that are about to exit after the end of the file. So long its own
   * process may also go on after its tests.
   */
  leave_ms: number;
  /** Of several files in one process the first that fails ends it. */
  bail: boolean;
  signal: AbortSignal;
  time: ProcessorTime;
}

/** Bound of the wait until the system has removed killed processes. */
const GONE_MS = 20_000;

/**
 * Runs one test file in its own process group, then kills what it leaves behind. Node runs
 * TypeScript by itself: it removes the types.
 */
export async function runFile(
  file: string,
  { env, folder, bound_ms, leave_ms, signal, time }: Omit<RunOptions, 'bail'>,
): Promise<Outcome> {
  const started = performance.now();
  const child = spawn(process.execPath, [file], {
    env: { ...env, TMPDIR: folder, TEMP: folder, TMP: folder, SVC_HOME: join(folder, 'home') },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const problems: string[] = [];
  const expired = AbortSignal.timeout(bound_ms);
  const kill = () => killGroup(child);
  for (const cause of [expired, signal]) cause.addEventListener('abort', kill);
  const open = new AbortController();
  let ending: NodeJS.Timeout | undefined;
  const output = collect(child, [child.stdout, child.stderr], (text) => {
    // uvu has printed its totals.
    if (/^ {2}Duration:/m.test(text)) ending ??= setTimeout(() => open.abort(), leave_ms);
  });
  open.signal.addEventListener('abort', kill);
  const end = await new Promise<string | number | null>((resolve) => {
    child.once('exit', (code, by) => resolve(by ?? code));
    child.once('error', () => resolve('not started'));
  });
  clearTimeout(ending);
  const waited_s = time.ended();
  for (const cause of [expired, signal]) cause.removeEventListener('abort', kill);
  if (expired.aborted) problems.push(`it was killed at its bound of ${bound_ms / 1000} s`);
  else if (open.signal.aborted)
    problems.push('it went on after its tests: one of them left something open');
  else if (end !== 0 && end !== 1) problems.push(`it crashed: ${end}`);
  const wasKilled = expired.aborted || open.signal.aborted;
  const leaked = await endLeft(child, folder, wasKilled ? 0 : leave_ms, signal);
  if (leaked.length > 0 && !wasKilled)
    problems.push(`it left ${leaked.length} running: ${leaked.join(', ')}`);
  const text = await output();
  return {
    file,
    ...count(text, end, problems),
    ms: performance.now() - started,
    cpu_s: waited_s === null ? null : waited_s + time.left(folder),
    output: text,
    problems,
  };
}

/** Reads the totals of uvu. A file whose totals are incomplete has failed. */
export function count(
  output: string,
  end: string | number | null,
  problems: string[],
): Pick<Outcome, 'passed' | 'failed' | 'skipped'> {
  const last = (name: string) =>
    Number([...output.matchAll(new RegExp(`^ {2}${name}:\\s+(\\d+)$`, 'gm'))].at(-1)?.[1] ?? 0);
  const [total, passed, skipped] = [last('Total'), last('Passed'), last('Skipped')];
  if (total + skipped === 0 && problems.length === 0) problems.push('no test ran');
  if (skipped > 0 && skipReasons(output).length === 0)
    problems.push(`${skipped} skipped, and no line "skipped: …" says why`);
  if (end !== 0 && total === passed && problems.length === 0)
    problems.push('its process failed after its tests had passed');
  if (total > passed && !output.includes(' FAIL '))
    problems.push(`${total - passed} did not run: a hook failed`);
  return { passed, failed: Math.max(total - passed, problems.length), skipped };
}

/** Why a file skips tests, from lines such as `skipped: no grpcurl`. */
export function skipReasons(output: string): string[] {
  return [...output.matchAll(/^skipped: (.+)$/gm)].map(([, reason = '']) => reason);
}

/**
 * Collects what a child writes to some of its streams. A leaked process may keep a stream open, so
 * the wait is bounded.
 */
export function collect(
  child: ChildProcess,
  streams: readonly (Readable | null)[],
  heard: (text: string) => void,
): () => Promise<string> {
  const parts: Buffer[] = [];
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  for (const stream of streams)
    stream?.on('data', (part: Buffer) => {
      parts.push(part);
      heard(part.toString('latin1'));
    });
  return async () => {
    await Promise.race([closed, sleep(GONE_MS, undefined, { ref: false })]);
    return Buffer.concat(parts).toString('utf8');
  };
}

/** Waits up to `grace_ms` for leftover processes, then kills them. Returns the killed ones. */
export async function endLeft(
  child: ChildProcess,
  folder: string,
  grace_ms: number,
  signal: AbortSignal,
): Promise<string[]> {
  const end = performance.now() + grace_ms;
  let left = findLeft(child, folder);
  while (left.size > 0 && performance.now() < end && !signal.aborted) {
    await sleep(20);
    left = findLeft(child, folder);
  }
  for (const pid of left.keys()) tryKill(pid);
  const gone = performance.now() + GONE_MS;
  while (left.size > 0 && findLeft(child, folder).size > 0 && performance.now() < gone)
    await sleep(20);
  return [...left.values()];
}

/**
 * Leftover processes by pid. On Linux: all that mention the folder, in any session. Elsewhere: the
 * process group.
 */
function findLeft(child: ChildProcess, folder: string): Map<number, string> {
  const found = new Map<number, string>();
  if (process.platform === 'linux') {
    for (const entry of readdirSync('/proc')) {
      if (!/^\d+$/.test(entry)) continue;
      const command = read(entry, 'cmdline').replaceAll('\0', ' ').trim();
      if (command.includes(folder) || read(entry, 'environ').includes(folder))
        found.set(Number(entry), `${command} (${entry})`);
    }
  } else if (process.platform !== 'win32' && child.pid !== undefined && isGroup(child.pid))
    found.set(-child.pid, `process group ${child.pid}`);
  return found;
}

function read(pid: string, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}

function isGroup(pid: number): boolean {
  try {
    return process.kill(-pid, 0);
  } catch {
    return false;
  }
}

export function killGroup(child: ChildProcess): void {
  if (child.pid !== undefined) tryKill(process.platform === 'win32' ? child.pid : -child.pid);
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has exited.
  }
}
