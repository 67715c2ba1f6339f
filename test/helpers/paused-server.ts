import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A model server on this machine that answers only when the test says so. The test pauses its list
 * of models and its answers, and so keeps a daemon in any of its states.
 */
export class PausedServer {
  /** Chat requests that are open now. */
  readonly streams = new Set<ServerResponse>();
  /** All chat requests so far. */
  chats = 0;
  private readonly server: Server;
  private lists: ServerResponse[] = [];
  private holding = false;
  /** Answers that have a text. */
  private readonly said = new WeakSet<ServerResponse>();
  /** A client that is slow has not closed these yet. */
  private readonly finished = new WeakSet<ServerResponse>();

  constructor() {
    this.server = createServer((request, response) => {
      if (request.url?.endsWith('/models')) this.list(response);
      else request.on('end', () => this.chat(response)).resume();
    });
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/v1`;
  }

  holdModels(): void {
    this.holding = true;
  }

  /** Whether a client waits for the list of models. */
  get asked(): boolean {
    return this.lists.length > 0;
  }

  releaseModels(): void {
    this.holding = false;
    for (const response of this.lists.splice(0)) this.list(response);
  }

  /** Sends one more piece in every open answer. */
  say(text: string): void {
    for (const response of this.unfinished()) {
      chunk(response, { content: text }, null);
      this.said.add(response);
    }
  }

  /** Completes every open answer. */
  finish(): void {
    for (const response of this.unfinished()) {
      // An answer with nothing would be a failed attempt.
      if (!this.said.has(response)) chunk(response, { content: 'done' }, null);
      chunk(response, {}, 'stop');
      response.end('data: [DONE]\n\n');
      this.finished.add(response);
    }
  }

  private unfinished(): ServerResponse[] {
    return [...this.streams].filter((response) => !this.finished.has(response));
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }

  private list(response: ServerResponse): void {
    if (this.holding) this.lists.push(response);
    else
      response
        .setHeader('content-type', 'application/json')
        .end(JSON.stringify({ object: 'list', data: [{ id: 'held', object: 'model' }] }));
  }

  private chat(response: ServerResponse): void {
    this.chats += 1;
    this.streams.add(response);
    response.on('close', () => this.streams.delete(response));
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    chunk(response, { role: 'assistant', content: '' }, null);
  }
}

function chunk(response: ServerResponse, delta: object, finish_reason: string | null): void {
  const body = {
    id: 'c',
    object: 'chat.completion.chunk',
    created: 0,
    model: 'held',
    choices: [{ index: 0, delta, logprobs: null, finish_reason }],
  };
  response.write(`data: ${JSON.stringify(body)}\n\n`);
}
