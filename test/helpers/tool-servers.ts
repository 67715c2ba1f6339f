import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Effect } from '../../machines/effects.ts';
import type { LoginStore } from '../../src/config/keys/port.ts';
import { stream, streamPort } from '../../src/kernel/stream.ts';
import { defaultLimits, type Limits } from '../../src/limits.ts';
import type { Log } from '../../src/ports/log.ts';
import { McpServers } from '../../src/tools/servers.ts';
import { bootKernel, type KernelHarness } from './kernel.ts';

/** The scripted tool server. The first argument names its fault. */
export const SCRIPTED = fileURLToPath(new URL('../fixtures/mcp/server.mjs', import.meta.url));

/** The entry of `mcp.json` for it. */
export function scripted(
  args: readonly string[] = [],
  svc: object = {},
  env: Record<string, string> = {},
): object {
  return { command: process.execPath, args: [SCRIPTED, ...args], env, svc };
}

export interface ToolServersHarness extends KernelHarness {
  servers: McpServers;
  folder: string;
  file: string;
  lines: string[];
  /** Writes `mcp.json`. */
  write(servers: Record<string, object>): void;
  /** The types of the events of a server, in order. */
  events(number: number, name?: string): Promise<string[]>;
  leave(): Promise<void>;
}

/** Tool servers over a kernel in memory, with a clock that the test moves. */
export async function bootToolServers(
  configured: Record<string, object>,
  options: {
    limits?: Partial<Limits>;
    env?: NodeJS.ProcessEnv;
    closed?: readonly string[];
    key?: (server: string, name: string) => Promise<string | null>;
    login?: (server: string) => LoginStore;
  } = {},
): Promise<ToolServersHarness> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-mcp-'));
  const file = join(folder, 'mcp.json');
  const limits = { ...defaultLimits, ...options.limits };
  const lines: string[] = [];
  const note = (fields: object, line: string) =>
    void lines.push(`${line} ${JSON.stringify(fields)}`);
  const log: Log = { debug: note, info: note, warn: note, error: note };
  let perform = (_: Effect) => {};
  const harness = await bootKernel({ limits, perform: (effect) => perform(effect) });
  const { kernel, clock, store } = harness;
  const servers = new McpServers({
    file,
    folder: join(folder, 'work'),
    machines: {
      create: async (name, number, transport) => {
        const key = stream.mcp(name, 'boot_1', number);
        const { mcp_start_ms: start_ms, mcp_stop_ms: stop_ms, mcp_idle_ms: idle_ms } = limits;
        const waits = { start_ms, stop_ms, idle_ms };
        await kernel.append([
          { stream: key, event: { type: 'mcp.created', name, number, transport, ...waits } },
        ]);
        return streamPort(kernel, key);
      },
      forget: (name, number) => kernel.forget(stream.mcp(name, 'boot_1', number)),
    },
    version: '0.0.0',
    env: options.env ?? process.env,
    key: options.key ?? (async () => null),
    login:
      options.login ??
      (() => ({ read: async () => null, write: async () => {}, remove: async () => false })),
    closed: options.closed ?? [],
    limits,
    log,
    now: () => clock.now(),
  });
  perform = ({ type, params }) => {
    if (type in servers.handlers)
      servers.handlers[type as keyof typeof servers.handlers](params as never, '');
  };
  const write = (all: Record<string, object>) =>
    writeFileSync(file, JSON.stringify({ mcpServers: all }));
  write(configured);
  return {
    ...harness,
    servers,
    folder,
    file,
    lines,
    write,
    events: async (number, name = 'x') => {
      const key = stream.mcp(name, 'boot_1', number);
      const events = await store.readStream(key, 0, 1000);
      return events.map(({ type }) => type);
    },
    leave: async () => {
      await servers.stopAll();
      await servers.close();
      kernel.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
