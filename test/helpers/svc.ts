import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DAEMON_ALLOCATOR } from '../../src/home/allocator.ts';
import { findPaths, type Paths, packageRoot } from '../../src/home/paths.ts';
import { ownerOf, readRuntimeFile } from '../../src/home/runtime-file.ts';
import { fixedLimits, type Limits } from '../../src/limits.ts';
import { SMALL_RESERVE_SETTING } from './small-reserve.ts';

/** The built program, run as a user runs it. */
export const PROGRAM = join(packageRoot(), 'dist', 'src', 'main.js');

export interface Outcome {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

export interface Home {
  folder: string;
  paths: Paths;
  env: NodeJS.ProcessEnv;
  /** Runs a command to its end. */
  svc(args: readonly string[], options?: RunOptions): Promise<Outcome>;
  /** Starts a command and leaves it running; `close` ends it. */
  spawn(args: readonly string[], options?: RunOptions): Started;
  /** Ends every process of this home and deletes it. */
  close(): Promise<void>;
}

export interface RunOptions {
  /** Null leaves it open. */
  stdin?: string | Buffer | null;
  env?: NodeJS.ProcessEnv;
  /** The Node.js binary that runs it. */
  node?: string;
  /** A command with its arguments that runs the program. */
  wrapper?: readonly string[];
}

export interface Started {
  child: ChildProcess;
  stdout(): string;
  stderr(): string;
  ended: Promise<Outcome>;
}

/** Longest time for a command, and for a daemon in the foreground: they bound a hang. */
const BOUND_MS = 120_000;
const DAEMON_BOUND_MS = 600_000;

/**
 * Most tests ask no local model, so a start loads none. A second thread would be measured at each
 * first load, and spins while it waits for a busy core.
 */
const FEW_ENGINES = { SVC_ENGINE_THREADS: '1', SVC_ENGINE_PRELOAD: 'false' };
/** The settings of a user, for a bench. */
export const AS_SHIPPED = {
  ...DAEMON_ALLOCATOR,
  SVC_ENGINE_THREADS: undefined,
  SVC_ENGINE_PRELOAD: undefined,
  SVC_LIMIT_RESERVE_BYTES: undefined,
};

/** A temporary home with free ports, apart from the daemon of this machine. */
export function makeHome(env: NodeJS.ProcessEnv = {}): Home {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  const base = {
    PATH: process.env.PATH,
    HOME: folder,
    SVC_HOME: folder,
    SVC_HTTP: '127.0.0.1:0',
    SVC_GRPC: '127.0.0.1:0',
    ...FEW_ENGINES,
    ...SMALL_RESERVE_SETTING,
    NODE_V8_COVERAGE: process.env.NODE_V8_COVERAGE,
  };
  const full = withBounds({ ...base, ...env });
  const paths = findPaths(full);
  const started = new Set<ChildProcess>();
  let isClosed = false;
  const start = (args: readonly string[], options: RunOptions = {}) => {
    // Nothing would end it, and it would keep the test's process alive.
    if (isClosed) throw new Error(`the home is closed: svc ${args.join(' ')} is not started`);
    return launch(args, { ...options, env: { ...full, ...options.env } }, started);
  };
  return {
    folder,
    paths,
    env: full,
    spawn: start,
    svc: async (args, options) => start(args, options).ended,
    close: async () => {
      isClosed = true;
      for (const child of started) child.kill('SIGKILL');
      const found = readRuntimeFile(paths.runtime);
      if (found.kind === 'present' && ownerOf(found.file) === 'ours')
        process.kill(found.file.pid, 'SIGKILL');
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

function launch(args: readonly string[], options: RunOptions, started: Set<ChildProcess>): Started {
  const [program = process.execPath, ...rest] = [
    ...(options.wrapper ?? []),
    options.node ?? process.execPath,
    PROGRAM,
    ...args,
  ];
  const child = spawn(program, rest, {
    env: withBounds(options.env),
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: args[0] === 'serve' ? DAEMON_BOUND_MS : BOUND_MS,
    killSignal: 'SIGKILL',
  });
  started.add(child);
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdin.on('error', () => {});
  if (options.stdin !== null) child.stdin.end(options.stdin);
  const ended = new Promise<Outcome>((resolve) => {
    child.on('close', (code, signal) => {
      started.delete(child);
      resolve({ code, signal, stdout, stderr });
    });
  });
  return { child, stdout: () => stdout, stderr: () => stderr, ended };
}

/** The variables that set these limits in the built program, whether they are settings or not. */
export function limitVariables(limits: Partial<Limits>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(limits).map(([name, value]) => [variableOf(name), String(value)]),
  );
}

const variableOf = (name: string) => `SVC_LIMIT_${name.toUpperCase()}`;

const CHANGE_BOUNDS = new URL('./fixed-limits.ts', import.meta.url).href;

/** A bound that is not a setting is changed in the program of the daemon. */
export function withBounds(env: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const bounds = Object.keys(fixedLimits).filter((name) => env[variableOf(name)] !== undefined);
  if (bounds.length === 0) return env;
  const { FIXED_LIMITS, NODE_OPTIONS = '', ...rest } = env;
  for (const name of bounds) delete rest[variableOf(name)];
  const changed = Object.fromEntries(bounds.map((name) => [name, Number(env[variableOf(name)])]));
  const isLoaded = FIXED_LIMITS !== undefined;
  return {
    ...rest,
    NODE_OPTIONS: isLoaded ? NODE_OPTIONS : `${NODE_OPTIONS} --import=${CHANGE_BOUNDS}`.trim(),
    FIXED_LIMITS: JSON.stringify({ ...JSON.parse(FIXED_LIMITS ?? '{}'), ...changed }),
  };
}
