import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ClientOptions, WebSocket } from 'ws';
import type { Limits } from '../../../src/limits.ts';
import { createLog, type DaemonLog } from '../../../src/logs/log.ts';
import { attachSockets, type Sockets } from '../../../src/transport/ws/upgrade.ts';
import { BEARER, type Booted, boot, TOKEN, wire } from '../http/boot.ts';

export interface Context {
  folder: string;
  http: Booted;
  daemon: DaemonLog;
  channel: Sockets;
  /** What the token admitted ends when this is aborted. */
  token: AbortController;
}

const LIMITS = { log_follow_lines: 16, close_grace_ms: 200 };

/** A listener with its log channel and a new log. */
export async function open(more: Partial<Limits> = {}): Promise<Context> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-ws-'));
  const http = await boot({
    limits: { ...LIMITS, ...more },
    settings: { allowed_origins: ['https://app.example'] },
  });
  const { limits } = http;
  const daemon = createLog({
    folder,
    level: 'debug',
    limits: { ...limits, log_file_bytes: 4096 * 4 },
    boot_id: 'boot_1',
    stdout: 'none',
  });
  const settings = { auth: true, allowed_origins: ['https://app.example'], http: '127.0.0.1:0' };
  const token = new AbortController();
  const channel = attachSockets(http, {
    runtime: http.runtime,
    hub: daemon.hub,
    folder,
    settings,
    token: () => TOKEN,
    tokenEnded: () => token.signal,
    sessions: { find: () => null },
    limits,
    log: daemon.log,
  });
  return { folder, http, daemon, channel, token };
}

export async function close({ folder, http, daemon, channel }: Context): Promise<void> {
  await channel.close();
  await http.close();
  daemon.close();
  rmSync(folder, { recursive: true, force: true });
}

export interface Client {
  socket: WebSocket;
  lines: Record<string, unknown>[];
  closed: Promise<number>;
}

export function connect(http: Booted, query: string, options: ClientOptions = {}): Client {
  const socket = new WebSocket(`ws://${http.host}/v1/logs${query}`, {
    headers: BEARER,
    ...options,
  });
  const lines: Record<string, unknown>[] = [];
  socket.on('message', (data) => lines.push(JSON.parse(String(data))));
  socket.on('error', () => {});
  return { socket, lines, closed: new Promise((resolve) => socket.once('close', resolve)) };
}

/** The raw answer to an upgrade. */
export function handshake(
  http: Booted,
  target: string,
  host = http.host,
  headers = `Authorization: Bearer ${TOKEN}\r\n`,
): Promise<string> {
  return wire(
    http.port,
    `GET ${target} HTTP/1.1\r\nHost: ${host}\r\n${headers}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`,
  ).ended;
}
