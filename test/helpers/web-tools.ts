import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One request of svc to a tool server over HTTP. */
export interface Asked {
  verb: string;
  headers: IncomingHttpHeaders;
  /** Of its message. */
  method: string | undefined;
  id: number | string | undefined;
  message: Record<string, unknown>;
  res: ServerResponse;
  /** Answers with a result, as a JSON body. */
  result(value: unknown): void;
  /** Answers with this text as the body. */
  body(text: string | Buffer, type?: string, headers?: Record<string, string>): void;
  /** Begins a stream of events, and writes these texts. */
  events(...texts: string[]): void;
}

export type Does = (asked: Asked) => unknown;

export interface WebTools {
  url: string;
  asked: Asked[];
  /** What it does with a method of MCP, `GET` or `reply`. A test may change it. */
  does: Record<string, Does>;
  /** How often a method was called. */
  count(method: string): number;
  close(): void;
}

export const INTRODUCTION = {
  protocolVersion: '2025-06-18',
  capabilities: { tools: {} },
  serverInfo: { name: 'web', version: '1' },
};

/** A tool server over HTTP that does to the byte what a test says. By default it has `get`. */
export async function webTools(does: Record<string, Does> = {}): Promise<WebTools> {
  const asked: Asked[] = [];
  const all: Record<string, Does> = {
    GET: ({ res }) => res.writeHead(405).end(),
    DELETE: ({ res }) => res.writeHead(204).end(),
    initialize: ({ result }) => result(INTRODUCTION),
    'tools/list': ({ result }) => result({ tools: [{ name: 'get', inputSchema: {} }] }),
    'tools/call': ({ result }) => result({ content: [{ type: 'text', text: 'got' }] }),
    ...does,
  };
  const server = createServer(async (req, res) => {
    let text = '';
    for await (const piece of req) text += piece;
    const message = JSON.parse(text || '{}') as Record<string, unknown>;
    const { id, method } = message as { id?: number; method?: string };
    const body: Asked['body'] = (bytes, type = 'application/json', headers = {}) =>
      void res.writeHead(200, { 'content-type': type, ...headers }).end(bytes);
    const one: Asked = {
      verb: req.method ?? '',
      headers: req.headers,
      method,
      id,
      message,
      res,
      body,
      result: (value) => body(JSON.stringify({ jsonrpc: '2.0', id, result: value })),
      events: (...texts) => {
        if (!res.headersSent) res.writeHead(200, { 'content-type': 'text/event-stream' });
        for (const each of texts) res.write(each);
      },
    };
    asked.push(one);
    const key = one.verb === 'POST' ? (method ?? 'reply') : one.verb;
    const work = all[key] ?? (() => res.writeHead(202).end());
    await work(one);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    asked,
    does: all,
    count: (method) => asked.filter((one) => (one.method ?? one.verb) === method).length,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** A message as one event of a stream. */
export function event(message: unknown, more = ''): string {
  return `${more}data: ${JSON.stringify(message)}\n\n`;
}
