import { readFileSync } from 'node:fs';
import {
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
} from 'node:http';
import { readRuntimeFile } from '../../src/home/runtime-file.ts';
import type { Home } from '../helpers/svc.ts';

/**
 * The HTTP interface, as a client of another program uses it. Reads the address for each request:
 * the daemon may have restarted.
 */

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: it is compared, never trusted.
  json: any;
}

export interface Asked {
  method?: string;
  headers?: Record<string, string>;
  body?: unknown;
}

/** A server-sent event; `id` is null if it is not in the log. */
export interface Sent {
  id: number | null;
  event: string;
  // biome-ignore lint/suspicious/noExplicitAny: it is compared, never trusted.
  data: any;
}

export interface Stream {
  status: number;
  headers: IncomingHttpHeaders;
  /** Ends with the connection, for any reason. */
  events: AsyncIterable<Sent>;
  leave(): void;
}

/** Throws the errors of the connection. */
export async function ask(home: Home, path: string, asked: Asked = {}): Promise<Answer> {
  const { res } = await open(home, path, asked);
  let text = '';
  for await (const part of res.setEncoding('utf8')) text += part;
  return { status: res.statusCode ?? 0, headers: res.headers, text, json: parseOrNull(text) };
}

/** Reads a stream of events. Other answers have none. */
export async function stream(home: Home, path: string, asked: Asked = {}): Promise<Stream> {
  const { req, res } = await open(home, path, {
    ...asked,
    headers: { accept: 'text/event-stream', ...asked.headers },
  });
  return {
    status: res.statusCode ?? 0,
    headers: res.headers,
    events: sent(res),
    leave: () => req.destroy(),
  };
}

/** The same header for each request of one client. */
export const asClient = (name: string) => ({ 'x-svc-client': name });

async function* sent(res: IncomingMessage): AsyncIterable<Sent> {
  let rest = '';
  try {
    for await (const part of res.setEncoding('utf8')) {
      const blocks = (rest + part).split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) {
        const event = readBlock(block);
        if (event !== null) yield event;
      }
    }
  } catch {
    // It was cut off. Earlier events are whole.
  }
}

function readBlock(block: string): Sent | null {
  const field = (name: string) =>
    block
      .split('\n')
      .find((line) => line.startsWith(`${name}: `))
      ?.slice(name.length + 2);
  const [id, event, data] = [field('id'), field('event'), field('data')];
  if (event === undefined || data === undefined) return null;
  return { id: id === undefined ? null : Number(id), event, data: JSON.parse(data) };
}

function open(
  home: Home,
  path: string,
  { method = 'GET', headers = {}, body }: Asked,
): Promise<{ req: ClientRequest; res: IncomingMessage }> {
  const found = readRuntimeFile(home.paths.runtime);
  const base = found.kind === 'present' ? found.file.addresses.http : null;
  if (base === null) return Promise.reject(new Error('there is no daemon'));
  const token = readFileSync(home.paths.token, 'utf8').trim();
  const all = { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers };
  return new Promise((resolve, reject) => {
    const req = request(`${base}${path}`, { method, headers: all, agent: false, timeout: 120_000 });
    req.on('error', reject);
    req.on('timeout', () => req.destroy(new Error('silent for too long')));
    req.on('response', (res) => resolve({ req, res }));
    req.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
