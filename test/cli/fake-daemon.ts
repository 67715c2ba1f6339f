import { mkdirSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { suite, type Test } from 'uvu';
import { type RuntimeFile, writeRuntimeFile } from '../../src/home/runtime-file.ts';
import { programVersion } from '../../src/home/version.ts';
import { defaultLimits } from '../../src/limits.ts';
import { createLineSplitter } from '../../src/transport/control/lines.ts';
import type { Results } from '../../src/transport/control/protocol.ts';
import { type Home, makeHome } from '../helpers/svc.ts';

/** The reply of a fake method to one request. */
export interface Reply {
  params: Record<string, unknown>;
  event(event: unknown): void;
  result(result: unknown): void;
  error(error: object): void;
  /** Sends bytes that need not be lines. */
  raw(text: string): void;
  /** Closes the connection, as a dying daemon does. */
  hangUp(): void;
}

export type Method = (reply: Reply) => void;

export interface FakeDaemon {
  /** All requests, in order. */
  readonly asked: { method: string; params: Record<string, unknown> }[];
  readonly connections: Set<Socket>;
  on(method: string, does: Method): void;
  close(): Promise<void>;
}

export const status: Results['status'] = {
  state: 'ready',
  state_path: 'ready',
  since: '2026-01-02T03:04:05.000Z',
  pid: process.pid,
  version: programVersion(),
  boot_id: 'boot_1',
  home: '/home',
  addresses: { http: null, grpc: null, socket: null },
  runs: { active: 0, queued: 0, finished: 0 },
  seq: 7,
  last_boot: null,
  warning: null,
};

export const health: Results['health'] = {
  status: 'pass',
  version: programVersion(),
  service_id: 'svc',
  state: 'ready',
  state_path: 'ready',
  since: status.since,
  reason: null,
  live: true,
  ready: true,
};

export const runtimeFile: RuntimeFile = {
  pid: process.pid,
  // Unproven, so that no command signals the process of the test.
  process_start: null,
  boot_id: 'boot_1',
  version: programVersion(),
  started_at: new Date().toISOString(),
  program: 'svc',
  node: process.version,
  addresses: { http: null, grpc: null, socket: null },
};

/**
 * Serves the protocol on the socket of the home; the default replies are those of a ready daemon.
 */
export async function startFakeDaemon(home: Home): Promise<FakeDaemon> {
  const methods = new Map<string, Method>([
    ['status', ({ result }) => result(status)],
    ['health', ({ result }) => result(health)],
    ['config', ({ result }) => result({ limits: defaultLimits })],
    ['model.aliases', ({ result }) => result({ aliases: {} })],
    ['run.find', ({ params, result }) => result({ id: params.id })],
    ['run.cancel', ({ params, result }) => result({ ...run, id: params.id, state: 'cancelled' })],
  ]);
  const asked: FakeDaemon['asked'] = [];
  const connections = new Set<Socket>();
  const server = createServer((socket) => {
    connections.add(socket);
    socket.on('error', () => {}).on('close', () => connections.delete(socket));
    const lines = createLineSplitter(defaultLimits.message_bytes, (line) => {
      const { id, method, params = {}, cancel } = JSON.parse(line);
      if (cancel === true) return;
      asked.push({ method, params });
      const send = (message: object) => socket.write(`${JSON.stringify({ id, ...message })}\n`);
      methods.get(method)?.({
        params,
        event: (event) => send({ event }),
        result: (result) => send({ result }),
        error: (error) => send({ error }),
        raw: (text) => socket.write(text),
        hangUp: () => socket.destroySoon(),
      });
    });
    socket.on('data', (chunk: Buffer) => void lines(chunk));
  });
  await listen(server, home.paths.socket);
  await writeRuntimeFile(home.paths.runtime, runtimeFile);
  return {
    asked,
    connections,
    on: (method, does) => methods.set(method, does),
    close: async () => {
      for (const connection of connections) connection.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
      rmSync(home.paths.runtime, { force: true });
    },
  };
}

async function listen(server: Server, socket: string): Promise<void> {
  mkdirSync(dirname(socket), { recursive: true, mode: 0o700 });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
}

/** A run that was just accepted. */
export const run: Results['run.get'] = {
  id: 'run_1',
  state: 'queued',
  provider: 'local',
  model: 'tiny',
  cloud: false,
  prompt: 'p',
  system: null,
  output: '',
  finish_reason: null,
  usage: { input_tokens: null, output_tokens: null },
  queue_position: null,
  attempts: 0,
  created_at: status.since,
  started_at: null,
  first_output_at: null,
  ended_at: null,
  error: null,
  idempotency_key: null,
  client: 'test',
  recovery: 'resume',
  seq: 1,
};

/** The event of one piece of output. */
export function output(text: string, seq = 2): object {
  return {
    seq,
    stream: run.id,
    version: seq,
    type: 'run.output_appended',
    at: status.since,
    boot_id: 'boot_1',
    data: { attempt: 1, text, token_ids: [] },
  };
}

/** A suite where each test has its own home with a fake daemon. */
export function suiteWithDaemon(name: string): Test<{ home: Home; daemon: FakeDaemon }> {
  const test = suite<{ home: Home; daemon: FakeDaemon }>(name);
  test.before.each(async (context) => {
    context.home = makeHome();
    context.daemon = await startFakeDaemon(context.home);
  });
  test.after.each(async ({ home, daemon }) => {
    await daemon.close();
    await home.close();
  });
  return test;
}

/** The record of the completed run. */
export const completed = (text: string) => ({
  ...run,
  state: 'completed',
  output: text,
  finish_reason: 'stop',
});
