import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { answerOf, listOf } from './bomb-tools.ts';
import { type Bomb, bombOfSlug, type List, makeBomb, send } from './bombs.ts';

/**
 * One hostile server of HTTP behind all doors. An address is `/<door>/<bomb>/…`. It answers rightly
 * until it is asked for what its door is about.
 */
export class BombSite {
  /** How often a door was sent each bomb. */
  readonly sent = new Map<string, number>();
  /** Answers that have not ended. */
  open = 0;
  /** About so large is each bomb. */
  mib = 1;
  private readonly server = createServer((request, response) => {
    response.on('error', () => undefined);
    void this.take(request, response).catch(() => response.destroy());
  });

  static async start(): Promise<BombSite> {
    const site = new BombSite();
    site.server.listen(0, '127.0.0.1').unref();
    await once(site.server, 'listening');
    return site;
  }

  at(door: string, slug: string): string {
    return `${this.origin}/${door}/${slug}`;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  private async take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts).toString();
    const [, door = '', slug = ''] = (request.url ?? '').split('/');
    const path = (request.url ?? '').slice(door.length + slug.length + 2);
    if (door === 'api') return this.hub(request.url ?? '', response);
    if (door.startsWith('http-') || door.startsWith('sse-'))
      return this.tools(door, slug, body, request, response);
    if (door === 'login') return this.login(slug, path, response);
    const list = LISTS[door];
    // Each provider lists its model, so that it can be asked.
    if (list === undefined || (request.method === 'GET' && door !== 'models'))
      return reply(response, { data: [{ id: 'm' }] });
    const isStream = door === 'stream';
    await this.bomb(door, slug, list, response, isStream);
  }

  /** A hub of models: `/api/models/user/<bomb>/…`. */
  private async hub(url: string, response: ServerResponse): Promise<void> {
    const [, slug = ''] = /models\/user\/([\w-]+)/.exec(url) ?? [];
    await this.bomb('hub', slug, (items) => `[${items}]`, response);
  }

  /** A server that asks for a login, whose metadata are the bomb. */
  private async login(slug: string, path: string, response: ServerResponse): Promise<void> {
    if (path.includes('metadata'))
      return this.bomb('login', slug, (items) => `{"authorization_servers":[${items}]}`, response);
    const address = `${this.at('login', slug)}/metadata`;
    response.writeHead(401, { 'www-authenticate': `Bearer resource_metadata="${address}"` }).end();
  }

  private async tools(
    door: string,
    slug: string,
    body: string,
    { method }: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    if (method !== 'POST') return void response.writeHead(method === 'GET' ? 405 : 200).end();
    const asked = JSON.parse(body) as { id?: number; method: string };
    if (asked.id === undefined) return void response.writeHead(202).end();
    const about = door.endsWith('-list') ? 'tools/list' : 'tools/call';
    if (asked.method !== about) return reply(response, answerOf(asked));
    const list = (items: string) => listOf(about, asked.id, items);
    await this.bomb(door, slug, list, response, door.startsWith('sse-'));
  }

  private async bomb(
    door: string,
    slug: string,
    list: List,
    response: ServerResponse,
    isStream = false,
  ): Promise<void> {
    const key = `${door} ${slug}`;
    this.sent.set(key, (this.sent.get(key) ?? 0) + 1);
    const framed = (items: string) => (isStream ? `data: ${list(items)}\n\n` : list(items));
    const bomb: Bomb = makeBomb(bombOfSlug(slug), framed, this.mib);
    response.writeHead(200, {
      'content-type': isStream ? 'text/event-stream' : 'application/json',
      ...(bomb.encoding === undefined ? {} : { 'content-encoding': bomb.encoding }),
    });
    this.open += 1;
    const gone = new Promise<void>((resolve) => {
      response.once('close', () => {
        this.open -= 1;
        resolve();
      });
    });
    // The daemon may leave while it is sent to.
    response.on('error', () => {});
    await send(bomb, async (bytes) => {
      if (response.destroyed) throw new Error('no one reads');
      if (!response.write(bytes)) await Promise.race([once(response, 'drain'), gone]);
    });
    response.end();
  }
}

function reply(response: ServerResponse, value: object): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

/** Where the answer of each door has its list. */
const data: List = (items) => `{"data":[${items}]}`;
const LISTS: Readonly<Record<string, List>> = {
  models: data,
  embeddings: data,
  'embeddings-sdk': data,
  images: data,
  rerank: (items) => `{"results":[${items}]}`,
  audio: (items) => `{"text":"x","segments":[${items}]}`,
  chat: (items) => `{"choices":[${items}]}`,
  stream: (items) => `{"choices":[${items}]}`,
};
