import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const SOCKET = '.s.PGSQL.5432';
/** The database is ready, and no transaction is open. */
const [READY, IDLE] = [0x5a, 0x49];
const TERMINATE = 0x58;

/**
 * A pooler before a PostgreSQL, as pgbouncer is. In the mode `transaction` a connection of the
 * database goes to another client when a transaction ends. Its clients are trusted.
 */
export class Pooler {
  readonly folder = mkdtempSync(join(tmpdir(), 'svc-pooler-'));
  private readonly behind: string;
  private readonly mode: 'session' | 'transaction';
  private readonly idle: Backend[] = [];
  private readonly sockets = new Set<Socket>();
  private readonly server: Server;
  private startup: Buffer = Buffer.alloc(0);

  private constructor(folder: string, mode: Pooler['mode']) {
    this.behind = join(folder, SOCKET);
    this.mode = mode;
    this.server = createServer((client) => this.serve(client));
  }

  static async start(folder: string, mode: 'session' | 'transaction'): Promise<Pooler> {
    const pooler = new Pooler(folder, mode);
    pooler.server.listen(join(pooler.folder, SOCKET));
    await once(pooler.server, 'listening');
    return pooler;
  }

  async end(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
    rmSync(this.folder, { recursive: true, force: true });
  }

  private serve(client: Socket): void {
    let mine: Backend | null = null;
    let isGreeted = false;
    const forward = async (bytes: Buffer) => {
      mine ??= await this.take(isGreeted ? null : bytes);
      const backend: Backend = mine;
      backend.hear = (answer, isOver) => {
        client.write(answer);
        if (isOver && this.mode === 'transaction') mine = this.give(backend);
      };
      if (isGreeted) return backend.socket.write(bytes);
      isGreeted = true;
      return backend.hear(backend.greeting, true);
    };
    let before: Promise<unknown> = Promise.resolve();
    this.keep(client).on('data', (bytes) => {
      // The end of a client is not that of the connection behind it.
      if (bytes[0] !== TERMINATE) before = before.then(() => forward(bytes));
    });
    client.on('close', () => mine?.socket.destroy());
  }

  /** The one that was used last, or a new one. */
  private async take(startup: Buffer | null): Promise<Backend> {
    this.startup = startup ?? this.startup;
    const backend = this.idle.pop() ?? new Backend(this.keep(connect(this.behind)), this.startup);
    await backend.ready;
    return backend;
  }

  private give(backend: Backend): null {
    backend.hear = () => {};
    this.idle.push(backend);
    return null;
  }

  private keep(socket: Socket): Socket {
    this.sockets.add(socket);
    return socket.on('error', () => {});
  }
}

/** A connection of the database. Its first answer greets each of its clients. */
class Backend {
  readonly socket: Socket;
  greeting: Buffer = Buffer.alloc(0);
  hear: (answer: Buffer, isOver: boolean) => void = () => {};
  readonly ready: Promise<void>;
  private rest: Buffer = Buffer.alloc(0);

  constructor(socket: Socket, startup: Buffer) {
    this.socket = socket;
    socket.on('data', (bytes: Buffer) => this.take(bytes));
    this.ready = new Promise((resolve) => {
      this.hear = (answer, isOver) => {
        this.greeting = Buffer.concat([this.greeting, answer]);
        if (isOver) resolve();
      };
    });
    socket.write(startup);
  }

  /** Passes whole messages on. */
  private take(bytes: Buffer): void {
    this.rest = Buffer.concat([this.rest, bytes]);
    let end = 0;
    let isOver = false;
    while (this.rest.length >= end + 5) {
      const next = end + 1 + this.rest.readUInt32BE(end + 1);
      if (next > this.rest.length) break;
      isOver = this.rest[end] === READY && this.rest[next - 1] === IDLE;
      end = next;
    }
    const whole = this.rest.subarray(0, end);
    this.rest = this.rest.subarray(end);
    this.hear(whole, isOver);
  }
}
