import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/**
 * A server on loopback that speaks the chat completions of OpenAI. The test controls it to the
 * byte. It records requests and knows its open connections, so that a test sees work that does not
 * stop.
 */

export interface Received {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}

export class Exchange {
  readonly received: Received;
  readonly response: ServerResponse;
  readonly socket: Socket;
  /** Resolves when either side closes the connection. */
  readonly closed: Promise<void>;

  constructor(received: Received, response: ServerResponse, socket: Socket) {
    this.received = received;
    this.response = response;
    this.socket = socket;
    this.closed = new Promise((resolve) => socket.once('close', () => resolve()));
  }

  get json(): Record<string, unknown> {
    return JSON.parse(this.received.body) as Record<string, unknown>;
  }

  /** Begins a stream of events, once. */
  open(headers: Record<string, string> = {}): this {
    if (this.response.headersSent) return this;
    this.response.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
    this.response.flushHeaders();
    return this;
  }

  /** Sends any bytes; resolves when the system has them. */
  write(bytes: string | Uint8Array): Promise<void> {
    return new Promise((resolve, reject) =>
      this.response.write(bytes, (error) => (error ? reject(error) : resolve())),
    );
  }

  event(value: unknown): Promise<void> {
    return this.write(`data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`);
  }

  text(content: string): Promise<void> {
    return this.event(chunk({ content }));
  }

  finish(reason: string | null = 'stop'): Promise<void> {
    return this.event(chunk({}, reason));
  }

  usage(prompt_tokens: number, completion_tokens: number): Promise<void> {
    return this.event({
      ...chunk({}),
      choices: [],
      usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
    });
  }

  end(): void {
    this.response.end();
  }

  async done(): Promise<void> {
    await this.event('[DONE]');
    this.end();
  }

  /** A whole successful answer. */
  async answer(...texts: string[]): Promise<void> {
    this.open();
    for (const text of texts) await this.text(text);
    await this.finish();
    await this.usage(3, texts.length);
    await this.done();
  }

  /** A whole turn that calls these tools, with the arguments of each. */
  async call(calls: readonly (readonly [name: string, args: object])[]): Promise<void> {
    this.open();
    const tool_calls = calls.map(([name, args], index) => ({
      index,
      id: `call_${index}`,
      type: 'function',
      function: { name, arguments: JSON.stringify(args) },
    }));
    await this.event(chunk({ tool_calls }));
    await this.finish('tool_calls');
    await this.usage(3, 1);
    await this.done();
  }

  reply(status: number, value: unknown, headers: Record<string, string> = {}): void {
    this.response
      .writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(JSON.stringify(value));
  }
}

export type Scenario = (exchange: Exchange) => unknown;

export class Upstream {
  readonly received: Received[] = [];
  scenario: Scenario;
  /** Connections that are open now. */
  readonly sockets = new Set<Socket>();
  private readonly server: Server;

  constructor(scenario: Scenario) {
    this.scenario = scenario;
    this.server = createServer((request, response) => void this.take(request, response));
    this.server.on('connection', (socket) => {
      this.sockets.add(socket);
      socket.setMaxListeners(0).on('error', () => undefined);
      socket.once('close', () => this.sockets.delete(socket));
    });
  }

  static async start(
    scenario: Scenario = (exchange) => exchange.answer('Hello'),
    port = 0,
  ): Promise<Upstream> {
    const upstream = new Upstream(scenario);
    await new Promise<void>((resolve) => upstream.server.listen(port, '127.0.0.1', resolve));
    return upstream;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get base_url(): string {
    return `http://127.0.0.1:${this.port}/v1`;
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }

  private async take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const received = {
      method: request.method ?? '',
      path: request.url ?? '',
      headers: request.headers,
      body: Buffer.concat(parts).toString('utf8'),
    };
    this.received.push(received);
    await this.scenario(new Exchange(received, response, request.socket));
  }
}

/** One chunk of a chat completion. */
export function chunk(
  delta: Record<string, unknown>,
  finish_reason: string | null = null,
): Record<string, unknown> {
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
  };
}
