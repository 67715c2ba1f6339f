import { type ChildProcess, spawn } from 'node:child_process';
import { accessSync, constants, existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { waitFor } from '../../helpers/wait.ts';
import { atExit } from './at-exit.ts';

/**
 * Other servers that a measurement compares with. A variable names each one, or it is on the PATH.
 */

interface Peer {
  variable: string;
  how: string;
}

const PEERS = {
  'llama-server': {
    variable: 'BENCH_LLAMA_SERVER',
    how: 'build the target llama-server of vendor/llama.cpp in the source package of llama-cpp-python (PyPI), and put it on the PATH',
  },
  ollama: {
    variable: 'BENCH_OLLAMA',
    how: 'build the Go module github.com/ollama/ollama, and put it on the PATH',
  },
  litellm: {
    variable: 'BENCH_LITELLM',
    how: "run: pip install 'litellm[proxy]==1.106.2', and put litellm on the PATH",
  },
  portkey: {
    variable: 'BENCH_PORTKEY',
    how: 'run: npm install @portkey-ai/gateway@1.15.2 in a folder whose package.json overrides @hono/node-server with 1.14.1, and set BENCH_PORTKEY to node_modules/@portkey-ai/gateway/build/start-server.js of it',
  },
  pm2: {
    variable: 'BENCH_PM2',
    how: 'run: npm install pm2@7.0.4 in a folder, and set BENCH_PM2 to node_modules/pm2/bin/pm2 of it',
  },
} as const satisfies Record<string, Peer>;

export type PeerName = keyof typeof PEERS;

/** The path of a peer, or how to get it. */
export function findProgram(
  name: PeerName,
): { path: string; how: null } | { path: null; how: string } {
  const { variable, how } = PEERS[name];
  const named = process.env[variable];
  const found = named ?? onPath(name);
  return found !== undefined && existsSync(found)
    ? { path: found, how: null }
    : {
        path: null,
        how: how.includes(variable) ? `${how}.` : `${how}, or set ${variable} to its path.`,
      };
}

function onPath(name: string): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export interface Running {
  pid: number;
  url: string;
  stop(): Promise<void>;
}

export interface Start {
  command: string;
  /** The arguments for a port. */
  args: (port: number) => readonly string[];
  env?: (port: number) => NodeJS.ProcessEnv;
  /** The path that answers once it takes requests, with any status under 500. */
  probe: string;
  cwd?: string;
}

/** Starts a server on a free port of loopback, and waits until it answers. */
export async function startServer({ command, args, env, probe, cwd }: Start): Promise<Running> {
  const port = await freePort();
  const child = spawn(command, args(port), {
    env: { ...process.env, ...env?.(port) },
    stdio: ['ignore', 'ignore', 'pipe'],
    // Its processes end with it: Ollama leaves one for each model.
    detached: true,
    ...(cwd === undefined ? {} : { cwd }),
  });
  atExit(() => isRunning(child) && endGroup(child));
  let printed = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    printed = (printed + text).slice(-4000);
  });
  const url = `http://127.0.0.1:${port}`;
  await waitFor(
    `${command} answers`,
    async () => {
      if (child.exitCode !== null || child.signalCode !== null)
        throw new Error(`${command} ended: ${printed}`);
      const answer = await fetch(`${url}${probe}`).catch(() => null);
      await answer?.body?.cancel();
      return answer !== null && answer.status < 500;
    },
    { within_ms: 120_000, every_ms: 20 },
  );
  return { pid: child.pid ?? 0, url, stop: () => stop(child) };
}

async function stop(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once('exit', resolve));
  if (!isRunning(child)) return;
  endGroup(child);
  await ended;
}

const isRunning = (child: ChildProcess) => child.exitCode === null && child.signalCode === null;

function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}
