import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type ControlClient, connect } from '../../src/transport/control/client.ts';
import type { Results } from '../../src/transport/control/protocol.ts';
import { type Home, PROGRAM, withBounds } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';

export type Run = Results['run.get'];

/**
 * One boot of the built daemon, as a child of the test. So the test sees its end, and kills only
 * its pid.
 */
export interface Life {
  child: ChildProcess;
  pid: number;
  /** Its output: the log, and start errors. */
  printed(): string;
  /** Resolves with its exit. */
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  kill(): Promise<void>;
  /** Asks over the local socket, with a new connection each time. */
  ask: <T>(work: (client: ControlClient) => Promise<T>) => Promise<T>;
  /** Stops it cleanly. */
  stop(timeout_ms?: number): Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

export interface LifeOptions {
  env?: NodeJS.ProcessEnv;
  /** A command that runs the daemon, such as strace. */
  wrapper?: readonly string[];
  /** The main file of another build. */
  program?: string;
}

/** Starts `svc serve` without waiting for it. */
export function launch(
  home: Home,
  { env = {}, wrapper = [], program = PROGRAM }: LifeOptions = {},
): Life {
  const [command = '', ...args] = [...wrapper, process.execPath, program, 'serve'];
  const child = spawn(command, args, {
    env: withBounds({ ...home.env, ...env }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let printed = '';
  for (const source of [child.stdout, child.stderr]) {
    source.setEncoding('utf8').on('data', (text: string) => {
      printed = (printed + text).slice(-PRINTED_MAX);
    });
  }
  const ended = once(child, 'close').then(([code, signal]) => ({
    code: code as number | null,
    signal: signal as NodeJS.Signals | null,
  }));
  const ask: Life['ask'] = async (work) => {
    const client = await connect(home.paths.socket, { timeout_ms: CONNECT_MS });
    return work(client).finally(() => client.close());
  };
  return {
    child,
    pid: child.pid ?? 0,
    printed: () => printed,
    ended,
    ask,
    kill: async () => {
      child.kill('SIGKILL');
      await ended;
    },
    stop: async (timeout_ms = 30_000) => {
      await ask((client) => client.call('lifecycle', { type: 'stop_requested', timeout_ms })).catch(
        () => {},
      );
      return ended;
    },
  };
}

/** Starts `svc serve` and waits until it takes runs. */
export async function serve(home: Home, options: LifeOptions = {}): Promise<Life> {
  const life = launch(home, options);
  await ready(life);
  return life;
}

/** Throws, with the end of its output, if the daemon ends before it is ready. */
export async function ready(life: Life): Promise<void> {
  let over = false;
  void life.ended.then(() => {
    over = true;
  });
  await waitFor('the daemon is ready', async () => {
    if (over)
      throw new Error(`the daemon ended before it was ready:\n${life.printed().slice(-2000)}`);
    const health = await life.ask((client) => client.call('health')).catch(() => null);
    return health?.ready;
  });
}

/** Pid of the engine process, once its model is loaded. */
export function enginePid(life: Life): Promise<number> {
  return waitFor('the engine has loaded its model', async () => {
    const { engine } = await life.ask((client) => client.call('report'));
    return engine.pid;
  });
}

const PRINTED_MAX = 1_000_000;
/** It bounds a hang. A test that floods the daemon is too busy to see it at once. */
export const CONNECT_MS = 60_000;
