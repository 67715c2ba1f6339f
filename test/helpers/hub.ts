import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/**
 * A model hub on loopback that behaves for each download as the test says. It counts the bytes it
 * sends and records the requests. So a test sees a byte fetched twice, or a token sent to the wrong
 * host.
 */

/** How the hub answers one download. By default it sends the whole file or the requested range. */
export interface Behaviour {
  status?: number;
  headers?: Record<string, string>;
  /** Answers with this in place of the file. */
  body?: string;
  redirect?: string;
  /** Ignores the requested range. */
  noRanges?: boolean;
  /** Sends another range than the requested one. */
  rangeFrom?: number;
  /** Null sends none. */
  etag?: string | null;
  /** Sends no length; the last chunk ends the body. */
  chunked?: boolean;
  /** Sends this length in place of the real one; the connection ends after the real bytes. */
  claimedLength?: number;
  /** Sends these bytes in place of the file. */
  bytes?: Buffer;
  /** Cuts the connection after this many bytes of the answer. */
  cutAfter?: number;
  /** Sends this many bytes of the answer, then nothing; the connection stays open. */
  hangAfter?: number;
  /** The speed of one connection. */
  bytesPerSecond?: number;
  /** Never answers. */
  silent?: boolean;
}

export interface HubRequest {
  path: string;
  query: string;
  headers: IncomingMessage['headers'];
  /** Bytes of the body. */
  sent: number;
  status: number;
}

export class Hub {
  /** A client drops what it has not read when it hears of the end. `end`: the last byte sent. */
  beforeCut: (end: number) => Promise<unknown> = async () => {};
  /** The files by path, as the hub lists and sends them now. */
  readonly files = new Map<string, Buffer>();
  /** Behaviour of the next downloads, in order; later ones are `usual`. */
  readonly next: Behaviour[] = [];
  usual: Behaviour = {};
  /** Behaviour of the next listings, in order. */
  readonly nextLists: Behaviour[] = [];
  readonly asked: HubRequest[] = [];
  /** Answers in progress. */
  readonly open = new Set<ServerResponse>();
  /** The most answers in progress at one time. */
  openMost = 0;
  private readonly sockets = new Set<Socket>();
  /** Whether the list has the hash of a file. */
  hashes = true;
  /** Listed in place of the real hash. */
  listedHash: string | null = null;
  commit = 'c'.repeat(40);
  pageSize = 1000;
  private readonly server: Server;

  constructor() {
    this.server = createServer((request, response) => void this.take(request, response));
    this.server.on('connection', (socket) => {
      this.sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => this.sockets.delete(socket));
    });
  }

  static async start(files: Record<string, Buffer> = {}): Promise<Hub> {
    const hub = new Hub();
    for (const [path, bytes] of Object.entries(files)) hub.files.set(path, bytes);
    await new Promise<void>((resolve) => hub.server.listen(0, '127.0.0.1', resolve));
    return hub;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  get downloads(): HubRequest[] {
    return this.asked.filter(({ path }) => !path.startsWith('/api/'));
  }

  get lists(): HubRequest[] {
    return this.asked.filter(({ path }) => path.startsWith('/api/'));
  }

  /** Bytes of files sent in all downloads. */
  get sent(): number {
    return this.downloads.reduce((sum, { sent }) => sum + sent, 0);
  }

  /** Forgets its requests, and how it was to behave. */
  reset(): void {
    this.usual = {};
    for (const list of [this.next, this.nextLists, this.asked]) list.length = 0;
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }

  private async take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', this.url);
    const asked: HubRequest = {
      path: decodeURIComponent(url.pathname),
      query: url.search.slice(1),
      headers: request.headers,
      sent: 0,
      status: 0,
    };
    this.asked.push(asked);
    this.open.add(response);
    this.openMost = Math.max(this.openMost, this.open.size);
    response.once('close', () => this.open.delete(response));
    if (asked.path.startsWith('/api/')) this.list(url, response, asked);
    else await this.download(request, response, asked);
  }

  /** `/api/models/<user>/<repo>/tree/<revision>` */
  private list(url: URL, response: ServerResponse, asked: HubRequest): void {
    const behaviour = this.nextLists.shift() ?? {};
    if (behaviour.silent) return;
    const from = Number(url.searchParams.get('cursor') ?? 0);
    const all = [...this.files].map(([path, bytes]) => this.entry(path, bytes));
    asked.status = behaviour.status ?? 200;
    const more =
      from + this.pageSize < all.length
        ? {
            link: `<${url.origin}${url.pathname}?recursive=true&cursor=${from + this.pageSize}>; rel="next"`,
          }
        : {};
    const headers = { 'content-type': 'application/json', ...more, ...behaviour.headers };
    response
      .writeHead(asked.status, headers)
      .end(
        behaviour.body ??
          JSON.stringify([
            { type: 'directory', path: 'sub' },
            ...all.slice(from, from + this.pageSize),
          ]),
      );
  }

  private entry(path: string, bytes: Buffer): object {
    const entry = { type: 'file', path, size: bytes.length, oid: '0'.repeat(40) };
    return this.hashes
      ? {
          ...entry,
          lfs: { oid: this.listedHash ?? sha256(bytes), size: bytes.length, pointerSize: 134 },
        }
      : entry;
  }

  private async download(
    request: IncomingMessage,
    response: ServerResponse,
    asked: HubRequest,
  ): Promise<void> {
    const behaviour = this.next.shift() ?? this.usual;
    if (behaviour.silent) return;
    if (behaviour.redirect !== undefined)
      return this.reply(
        response,
        asked,
        302,
        { location: behaviour.redirect, 'x-repo-commit': this.commit },
        '',
      );
    if (behaviour.body !== undefined || (behaviour.status ?? 200) >= 400)
      return this.reply(
        response,
        asked,
        behaviour.status ?? 200,
        behaviour.headers ?? {},
        behaviour.body ?? 'no',
      );
    const file = behaviour.bytes ?? this.file(asked.path);
    if (file === null) return this.reply(response, asked, 404, {}, 'not here');
    await this.send(file, behaviour, request, response, asked);
  }

  private file(path: string): Buffer | null {
    const [, , , kind, , ...rest] = path.split('/');
    return this.files.get(kind === 'resolve' ? rest.join('/') : path.slice(1)) ?? null;
  }

  private async send(
    file: Buffer,
    behaviour: Behaviour,
    request: IncomingMessage,
    response: ServerResponse,
    asked: HubRequest,
  ): Promise<void> {
    const etag = behaviour.etag === undefined ? `"${sha256(file).slice(0, 16)}"` : behaviour.etag;
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
    const condition = request.headers['if-range'];
    const partial =
      range !== null &&
      behaviour.noRanges !== true &&
      (condition === undefined || condition === etag);
    const from = partial ? (behaviour.rangeFrom ?? Number(range[1])) : 0;
    if (partial && from >= file.length)
      return this.reply(response, asked, 416, { 'content-range': `bytes */${file.length}` }, '');
    const last = partial && range[2] !== '' ? Number(range[2]) : file.length - 1;
    const bytes = file.subarray(from, last + 1);
    asked.status = partial ? 206 : 200;
    response.writeHead(asked.status, {
      'content-type': 'application/octet-stream',
      'x-repo-commit': this.commit,
      ...(etag === null ? {} : { etag }),
      ...(partial ? { 'content-range': `bytes ${from}-${last}/${file.length}` } : {}),
      ...(behaviour.noRanges === true ? {} : { 'accept-ranges': 'bytes' }),
      ...(behaviour.chunked
        ? {}
        : { 'content-length': String(behaviour.claimedLength ?? bytes.length) }),
      ...behaviour.headers,
    });
    const begun = performance.now();
    const stop = behaviour.cutAfter ?? behaviour.hangAfter ?? bytes.length;
    for (let at = 0; at < Math.min(stop, bytes.length) && !response.destroyed; ) {
      const piece = bytes.subarray(at, Math.min(at + PIECE_BYTES, stop));
      await new Promise<void>((resolve) => response.write(piece, () => resolve()));
      at += piece.length;
      asked.sent += piece.length;
      await this.pace(at, begun, behaviour.bytesPerSecond);
    }
    if ((behaviour.hangAfter ?? bytes.length) < bytes.length) return;
    if (behaviour.cutAfter !== undefined) await this.beforeCut(from + Math.min(stop, bytes.length));
    if (behaviour.cutAfter !== undefined || behaviour.claimedLength !== undefined)
      response.socket?.end();
    else response.end();
  }

  private async pace(sent: number, begun: number, bytesPerSecond = 0): Promise<void> {
    const early =
      bytesPerSecond === 0 ? 0 : (sent / bytesPerSecond) * 1000 - (performance.now() - begun);
    if (early > 1) await new Promise((resolve) => setTimeout(resolve, early));
  }

  private reply(
    response: ServerResponse,
    asked: HubRequest,
    status: number,
    headers: Record<string, string>,
    body: string,
  ): void {
    asked.status = status;
    response.writeHead(status, headers).end(body);
  }
}

const PIECE_BYTES = 16 * 1024;

export function sha256(bytes: Buffer): string {
  const known = hashes.get(bytes) ?? createHash('sha256').update(bytes).digest('hex');
  hashes.set(bytes, known);
  return known;
}

/** No test changes the bytes of a file. */
const hashes = new WeakMap<Buffer, string>();
