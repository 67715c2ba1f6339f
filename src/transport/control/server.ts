import { existsSync, watch } from 'node:fs';
import { chmod, lstat, mkdir, rm, stat } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { basename, dirname } from 'node:path';
import { whyUnusable } from '../../causes.ts';
import { asSvcError, SvcError } from '../../errors.ts';
import { platform } from '../../home/platform.ts';
import type { Limits } from '../../limits.ts';
import { operations } from '../../operations/operations.ts';
import type { Operation } from '../../operations/row.ts';
import type { Log } from '../../ports/log.ts';
import { RecordBytes } from '../../runtime/runs/record-bytes.ts';
import { jsonPieces, PIECE_LENGTH, textLength } from '../stream/json-pieces.ts';
import { UnsentBytes } from '../stream/unsent-bytes.ts';
import { type Connection, createLineSplitter, writable, writeLines } from './lines.ts';
import { type CallMethod, findMethod, type Reply } from './methods.ts';
import type { Response } from './protocol.ts';

/**
 * The server of the local socket.
 *
 * 1. Any process that can open the socket is the user's: the socket has mode 0600, in a folder that
 *    only the user can change.
 * 2. A connection bounds its open requests and the length of a line. No request is read while the
 *    client does not read answers.
 * 3. A connection that closes cancels its requests. The runs that they started continue.
 * 4. A connection that does not begin with the protocol goes to the HTTP server and its bounds.
 * 5. Unsent bytes are counted. A connection that is closed for them loses its answers, and can
 *    follow its runs again.
 * 6. A socket file that was removed is made again. The other connections stay.
 * 7. A client that does not read delays no other. When the server closes, it is disconnected after
 *    a moment.
 */

export interface ControlOptions {
  socket: string;
  call: CallMethod;
  /** Takes a connection that speaks HTTP. */
  http(socket: Socket): void;
  limits: Limits;
  log: Log;
  /** Shared with the other transports. */
  unsent?: UnsentBytes;
}

const OPEN_REQUESTS_MAX = 32;
/** The first character of an HTTP request. No request of the protocol begins with it. */
const METHOD = /^[A-Z]$/;
/** Shorter answers are bounded by the number of connections and of their requests. */
const COUNTED_LENGTH = 16 * 1024;

export class ControlServer {
  private readonly options: ControlOptions;
  private server: Server;
  private readonly ended = new AbortController();
  private restoring: Promise<void> = Promise.resolve();
  private readonly connections = new Set<Socket>();
  private readonly unsent: UnsentBytes;

  constructor(options: ControlOptions) {
    this.options = options;
    this.unsent = options.unsent ?? new UnsentBytes(options.limits, options.log);
    this.server = this.create();
  }

  private create(): Server {
    const { limits, log } = this.options;
    const server = createServer((socket) => this.serve(socket));
    server.maxConnections = limits.connections;
    server.on('error', (error) => log.warn({ err: error }, 'the local socket failed'));
    return server;
  }

  /** The caller has locked the store, so an existing socket belongs to a daemon that crashed. */
  async listen(): Promise<string> {
    const { socket } = this.options;
    try {
      if (platform.hasSocketFile) await clear(socket);
      await this.bind();
      if (platform.hasSocketFile) this.watchFile();
    } catch (error) {
      if (error instanceof SvcError) throw error;
      throw new SvcError(
        'address_refused',
        `The local socket ${socket} cannot be created: ${whyUnusable(error)}.`,
        {
          cause: error,
          hint:
            'Check its folder and its disk, or choose another home with SVC_HOME. ' +
            'A long path is refused too.',
        },
      );
    }
    return socket;
  }

  private async bind(): Promise<void> {
    const { server } = this;
    const { socket } = this.options;
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(socket, () => {
        server.off('error', reject);
        resolve();
      });
    });
    if (platform.hasSocketFile) await chmod(socket, 0o600);
  }

  /** Where the system cannot watch a folder, a removed file stays removed. */
  private watchFile(): void {
    const { socket, log } = this.options;
    const options = { persistent: false, signal: this.ended.signal };
    try {
      watch(dirname(socket), options, (_, name) => {
        if (name === basename(socket)) this.restoring = this.restoring.then(() => this.restore());
      }).on('error', (error) => log.debug({ err: error }, 'the local socket is not watched'));
    } catch (error) {
      log.debug({ err: error }, 'the local socket is not watched');
    }
  }

  private async restore(): Promise<void> {
    const { socket, log } = this.options;
    if (this.ended.signal.aborted || existsSync(socket)) return;
    // Its close would remove the new file, so it comes before.
    this.server.close();
    this.server = this.create();
    await this.bind().then(
      () => log.warn({}, 'the local socket was removed, and was made again'),
      (error: unknown) => log.warn({ err: error }, 'the local socket cannot be made again'),
    );
  }

  /** Stops listening, lets writes finish for a moment, and closes the rest. */
  async close(): Promise<void> {
    this.ended.abort();
    await this.restoring;
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    for (const connection of this.connections) connection.destroySoon();
    const cut = setTimeout(() => {
      for (const connection of this.connections) connection.destroy();
    }, this.options.limits.close_grace_ms);
    await closed;
    clearTimeout(cut);
  }

  private serve(socket: Socket): void {
    this.connections.add(socket);
    socket.once('close', () => this.connections.delete(socket));
    const refuse = (error: Error) =>
      this.options.log.debug({ err: error }, 'a local connection failed');
    socket.on('error', refuse);
    socket.once('readable', () => {
      const first: Buffer | null = socket.read();
      if (first === null) return;
      socket.unshift(first);
      if (!METHOD.test(String.fromCharCode(first[0] ?? 0))) return this.serveLines(socket);
      socket.off('error', refuse);
      this.options.http(socket);
    });
  }

  private serveLines(socket: Socket): void {
    const { message_bytes, prompt_bytes } = this.options.limits;
    const lineMax = Math.max(message_bytes, 2 * prompt_bytes);
    const connection: Connection = {
      socket,
      outflow: this.unsent.enter(() => socket.destroy()),
      unsent: 0,
    };
    const open = new Map<number, AbortController>();
    const lines = createLineSplitter(lineMax, (line) => this.receive(connection, open, line));
    socket.on('data', (chunk: Buffer) => {
      if (!lines(chunk))
        this.send(connection, { id: 0, error: tooLongError(lineMax).body() }, true);
    });
    socket.on('drain', () => socket.resume());
    socket.on('close', () => {
      connection.outflow.leave();
      for (const abort of open.values()) abort.abort(new SvcError('connection_lost'));
    });
  }

  private receive(connection: Connection, open: Map<number, AbortController>, line: string): void {
    const request = parse(line);
    if (request === null)
      this.send(
        connection,
        { id: 0, error: new SvcError('invalid_request', 'A line is not a request.').body() },
        true,
      );
    else if (request.cancel) open.get(request.id)?.abort(new SvcError('connection_lost'));
    else if (open.has(request.id) || open.size >= OPEN_REQUESTS_MAX)
      this.send(connection, {
        id: request.id,
        error: new SvcError('busy', 'Too many requests are open on this connection.').body(),
      });
    else {
      const abort = new AbortController();
      open.set(request.id, abort);
      void this.answer(connection, request, abort.signal).finally(() => open.delete(request.id));
    }
  }

  private async answer(
    connection: Connection,
    request: Parsed,
    signal: AbortSignal,
  ): Promise<void> {
    const { id, method, params } = request;
    const reply: Reply = {
      signal,
      event: async (event) => {
        this.send(connection, { id, event });
        await writable(connection.socket, signal);
      },
      slice: ({ page: { body }, events }) =>
        writeLines(
          connection,
          body,
          events.map((event) => [`{"id":${id},"event":`, body.bytesOf([event]), '}\n']),
        ),
    };
    try {
      const name = findMethod(method);
      const { large, streams }: Operation = operations[name ?? 'health'];
      if (large && streams) this.unsent.admit();
      const make = async () => (await this.options.call(method, params, reply)) ?? null;
      const result = large && !streams ? this.unsent.makeWhole(make) : make();
      await this.sendResult(connection, id, await result);
    } catch (thrown) {
      const error = asSvcError(thrown);
      if (error.code === 'internal')
        this.options.log.error({ err: error.cause ?? error, method }, 'a local request failed');
      this.send(connection, { id, error: error.body() });
    }
  }

  private send(connection: Connection, response: Response, last = false): void {
    const { socket, outflow } = connection;
    if (socket.destroyed || socket.writableEnded) return;
    const text = `${JSON.stringify(response)}\n`;
    const counted = text.length < COUNTED_LENGTH ? 0 : text.length;
    const count = (more: number) => {
      connection.unsent += more;
      outflow.setOwnBytes(connection.unsent);
    };
    if (!socket.write(text, () => counted > 0 && count(-counted))) socket.pause();
    if (counted > 0) count(counted);
    if (last) socket.end();
  }

  private async sendResult(connection: Connection, id: number, result: unknown): Promise<void> {
    if (result instanceof RecordBytes)
      return writeLines(connection, result, [[`{"id":${id},"result":`, result.bytes, '}\n']]);
    if (textLength(result) < PIECE_LENGTH) return this.send(connection, { id, result });
    const pieces: Buffer[] = [];
    let size = 0;
    for (const piece of jsonPieces(result)) {
      await connection.outflow.turn(piece.length);
      if (connection.socket.destroyed) return;
      size += pieces[pieces.push(Buffer.from(piece)) - 1]?.length ?? 0;
    }
    await writeLines(connection, { size, holders: 0 }, [
      [`{"id":${id},"result":`, ...pieces, '}\n'],
    ]);
  }
}

/**
 * Makes the folder and removes the socket of a daemon that crashed. Throws home_unusable for a
 * folder that others can change.
 */
async function clear(socket: string): Promise<void> {
  const folder = dirname(socket);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const { uid, mode } = await stat(folder);
  if (!platform.isOwn(uid) || (mode & 0o022) !== 0)
    throw new SvcError(
      'home_unusable',
      `Others can change the folder ${folder}, where the local socket belongs.`,
      { hint: `Run: chmod 700 ${folder}` },
    );
  if ((await lstat(socket).catch(() => null))?.isDirectory() === true)
    throw new SvcError('home_unusable', `${socket} is a folder; the local socket belongs there.`, {
      hint: 'Move the folder away, or choose another home with SVC_HOME.',
    });
  await rm(socket, { force: true });
}

function tooLongError(bytes_max: number): SvcError {
  return new SvcError('body_too_large', `The request is longer than ${bytes_max} bytes.`, {
    hint: 'Send less. For longer prompts, raise the limit prompt_bytes.',
  });
}

interface Parsed {
  id: number;
  method: string;
  params: Record<string, unknown>;
  cancel: boolean;
}

function parse(line: string): Parsed | null {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null) return null;
  const { id, method, params = {}, cancel } = value as Record<string, unknown>;
  if (typeof id !== 'number' || !Number.isSafeInteger(id)) return null;
  if (cancel === true) return { id, method: '', params: {}, cancel: true };
  if (
    typeof method !== 'string' ||
    typeof params !== 'object' ||
    params === null ||
    Array.isArray(params)
  )
    return null;
  return { id, method, params: params as Record<string, unknown>, cancel: false };
}
