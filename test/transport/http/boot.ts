import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Settings } from '../../../src/config/settings.ts';
import type { Configuration } from '../../../src/contract/settings.ts';
import { routes } from '../../../src/daemon/routes.ts';
import { defaultLimits, type Limits } from '../../../src/limits.ts';
import type { Log } from '../../../src/ports/log.ts';
import type { Route } from '../../../src/transport/http/route.ts';
import { createHttp, type Http } from '../../../src/transport/http/server.ts';
import type { ServedCertificate } from '../../../src/transport/served-certificate.ts';
import { type FakeRuntime, fakeRuntime } from '../../helpers/fake-runtime.ts';

export const TOKEN = 'the-right-token-0123456789';
export const BEARER = { authorization: `Bearer ${TOKEN}` };

export interface Booted extends Http {
  runtime: FakeRuntime;
  url: string;
  port: number;
  /** The right Host header. */
  host: string;
  logged: { level: string; fields: Record<string, unknown>; message: string }[];
  limits: Limits;
}

/** What a failed test leaves open, which would keep the process alive. */
const left = { servers: new Set<Booted>(), sockets: new Set<Socket>() };

/** Closes every server and every bare connection that is still open. */
export async function closeBooted(): Promise<void> {
  for (const socket of left.sockets) socket.destroy();
  for (const booted of left.servers) await booted.close();
}

export interface BootOptions {
  limits?: Partial<Limits>;
  settings?: Partial<Settings>;
  token?: () => string | null;
  bind?: string;
  port?: number;
  routes?: readonly Route[];
  certificate?: ServedCertificate;
}

export async function boot(options: BootOptions = {}): Promise<Booted> {
  const runtime = fakeRuntime();
  runtime.bring('ready');
  const logged: Booted['logged'] = [];
  const write = (level: string) => (fields: object, message: string) =>
    void logged.push({ level, fields: { ...fields }, message });
  const log: Log = {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
  };
  const limits = { ...defaultLimits, ...options.limits };
  const settings = { auth: true, allowed_origins: [], http: '127.0.0.1:0', ...options.settings };
  const http = createHttp({
    runtime,
    settings,
    token: options.token ?? (() => TOKEN),
    limits,
    log,
    configuration: noSettings,
    routes: options.routes ?? routes,
    certificate: options.certificate ?? null,
    isServed: (name) => options.certificate?.isFor(name) === true,
  });
  const url = await http.listen(options.bind ?? '127.0.0.1', options.port ?? 0);
  const port = Number(new URL(url).port);
  const host = `127.0.0.1:${port}`;
  const close = (...args: Parameters<Http['close']>) => {
    left.servers.delete(booted);
    return http.close(...args);
  };
  const booted: Booted = { ...http, close, runtime, url, port, host, logged, limits };
  left.servers.add(booted);
  return booted;
}

/** A configuration without settings. */
export const noSettings: Configuration = {
  settings: () => ({ file: '/none', file_exists: false, problem: null, pending: [], settings: [] }),
  apply: () => ({ applied: [], after_restart: [] }),
};

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: the test says which type an answer has
  json: any;
}

export interface Ask {
  method?: string;
  headers?: Record<string, string>;
  body?: string | Buffer | object;
}

/** One request on a new connection. A body that is an object is sent as JSON. */
export async function ask(
  url: string,
  { method = 'GET', headers = {}, body }: Ask = {},
): Promise<Answer> {
  const isJson = body !== undefined && typeof body !== 'string' && !Buffer.isBuffer(body);
  const sent = isJson ? { 'content-type': 'application/json', ...headers } : headers;
  const req = request(url, { method, headers: sent, agent: false });
  const answered = new Promise<IncomingMessage>((resolve, reject) =>
    req.once('response', resolve).once('error', reject),
  );
  const content = isJson ? JSON.stringify(body) : body;
  // Node.js says it by itself for the other methods.
  if (method === 'DELETE' && content !== undefined)
    req.setHeader('content-length', Buffer.byteLength(content as string));
  req.end(content);
  const res = await answered;
  const text = await new Response(res as never).text();
  const isText = /[/+]json/.test(res.headers['content-type'] ?? '') && text !== '';
  return {
    status: res.statusCode ?? 0,
    headers: res.headers,
    text,
    json: isText ? JSON.parse(text) : undefined,
  };
}

/** A bare connection: the received text, and its end. */
export interface Wire {
  socket: Socket;
  received(): string;
  ended: Promise<string>;
}

export function wire(port: number, text = ''): Wire {
  const socket = connect(port, '127.0.0.1');
  let received = '';
  left.sockets.add(socket);
  socket.once('close', () => left.sockets.delete(socket));
  socket.setEncoding('latin1');
  socket.on('data', (chunk) => {
    received += chunk;
  });
  socket.on('error', () => {});
  const ended = new Promise<string>((resolve) => socket.once('close', () => resolve(received)));
  socket.write(text);
  return { socket, received: () => received, ended };
}

/** The status of a raw answer, and its body as JSON. */
// biome-ignore lint/suspicious/noExplicitAny: the test says which type an answer has
export function parseRaw(raw: string): { status: number; json: any; head: string } {
  const [head = '', body = ''] = raw.split(/\r\n\r\n([\s\S]*)/, 2);
  return {
    status: Number(head.split(' ')[1]),
    json: body === '' ? undefined : JSON.parse(body),
    head,
  };
}
