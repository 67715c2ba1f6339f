import type { Socket } from 'node:net';
import { callAfter } from '../../async/timers.ts';
import { type ErrorBody, fromBody, SvcError } from '../../errors.ts';
import { isServed } from './is-served.ts';
import { createLineSplitter } from './lines.ts';
import type { Events, Method, Results } from './protocol.ts';

/**
 * The client of the local socket.
 *
 * 1. Every wait ends: by time, by abort, or with the connection, which ends all open requests with
 *    connection_lost.
 * 2. Unread events are bounded: the socket is paused until they are read.
 * 3. Only the frame of an answer is checked. A line that is not an answer ends the connection.
 * 4. A connection that is reset before any answer was not read. The client then checks that a
 *    daemon is there at all.
 * 5. The caller explains a connection that closes before any answer, if it knows why.
 * 6. The daemon bounds requests. An answer may be as long as a text can be.
 */

export interface CallOptions {
  /** Longest wait for the answer. A stream has none by default. */
  timeout_ms?: number;
  signal?: AbortSignal;
}

/** Events as they arrive. `result` settles when the stream ends. */
export interface ControlStream<E, R> extends AsyncIterable<E> {
  readonly result: Promise<R>;
}

// Not imported: see src/home/paths.ts.
const { connect: connectSocket } = process.getBuiltinModule('node:net');

const CONNECT_MS = 2_000;
const CALL_MS = 10_000;
/** A little less than the longest possible text. */
const ANSWER_BYTES_MAX = 500 * 1024 * 1024;

export interface ConnectOptions {
  timeout_ms?: number;
  answer_bytes_max?: number;
  /** Explains a connection that closed before any answer. Null if the reason is unknown. */
  whyUnread?: () => Promise<SvcError | null>;
  /** Returns the error that the user sees for an error of the daemon. */
  explain?: (error: SvcError) => SvcError;
}

/** Throws daemon_not_running without a listener, and timed_out if no process accepts. */
export async function connect(path: string, options: ConnectOptions = {}): Promise<ControlClient> {
  const {
    timeout_ms = CONNECT_MS,
    answer_bytes_max = ANSWER_BYTES_MAX,
    whyUnread = async () => null,
    explain = (error) => error,
  } = options;
  const socket = connectSocket(path);
  await new Promise<void>((resolve, reject) => {
    const stop = callAfter(timeout_ms, () =>
      settle(
        new SvcError('timed_out', 'The daemon does not accept connections on its local socket.'),
      ),
    );
    const settle = (error?: SvcError) => {
      stop();
      socket.off('connect', settle).removeAllListeners('error');
      if (error === undefined) return resolve();
      socket.destroy();
      reject(error);
    };
    socket.once('connect', () => settle());
    socket.once('error', (cause) => settle(connectError(cause)));
  });
  return new ControlClient(socket, { path, answer_bytes_max, whyUnread, explain });
}

function connectError(cause: NodeJS.ErrnoException): SvcError {
  if (cause.code === 'EACCES' || cause.code === 'EPERM')
    return new SvcError('unauthorised', 'The local socket belongs to another user.', {
      cause,
      hint: 'Run the command as the user who started the daemon.',
    });
  // The queue of the socket is full: the process is there, and hangs.
  if (cause.code === 'EAGAIN')
    return new SvcError(
      'timed_out',
      'The daemon does not accept connections on its local socket.',
      { cause },
    );
  return notRunningError(cause);
}

function notRunningError(cause: unknown): SvcError {
  return new SvcError('daemon_not_running', 'The daemon is not running.', { cause });
}

type Opened = Pick<Required<ConnectOptions>, 'answer_bytes_max' | 'whyUnread' | 'explain'> & {
  path: string;
};

interface Open {
  event(event: unknown): void;
  result(result: unknown): void;
  error(error: SvcError): void;
}

export class ControlClient {
  /** Resolves when either side has ended the connection. */
  readonly closed: Promise<void>;
  private readonly socket: Socket;
  private readonly open = new Map<number, Open>();
  private lastId = 0;
  private ended: SvcError | null = null;
  private readonly options: Opened;
  /** Set while the client looks for the reason. */
  private looking: Promise<void> | null = null;

  constructor(socket: Socket, options: Opened) {
    this.socket = socket;
    this.options = options;
    const { answer_bytes_max } = options;
    const lines = createLineSplitter(answer_bytes_max, (line) => this.receive(line));
    this.closed = new Promise((resolve) => {
      socket.on('close', () => {
        this.lose();
        resolve();
      });
    });
    socket.on('error', (cause) => this.lose(cause));
    socket.on('data', (chunk: Buffer) => {
      if (!lines(chunk))
        this.end(
          new SvcError(
            'connection_lost',
            `The daemon sent a line of more than ${answer_bytes_max} bytes.`,
          ),
        );
    });
  }

  async call<M extends Method>(
    method: M,
    params: Record<string, unknown> = {},
    options: CallOptions = {},
  ): Promise<Results[M]> {
    return this.send<never, M>(method, params, { timeout_ms: CALL_MS, ...options }).result;
  }

  stream<M extends keyof Events>(
    method: M,
    params: Record<string, unknown> = {},
    options: CallOptions = {},
  ): ControlStream<Events[M], Results[M]> {
    return this.send<Events[M], M>(method, params, options);
  }

  close(): void {
    this.end(new SvcError('connection_lost', 'The connection was closed.'));
  }

  private send<E, M extends Method>(
    method: M,
    params: Record<string, unknown>,
    { timeout_ms, signal }: CallOptions,
  ): ControlStream<E, Results[M]> {
    const id = ++this.lastId;
    const queue = new EventQueue<E>(this.socket);
    const result = new Promise<Results[M]>((resolve, reject) => {
      const stop =
        timeout_ms === undefined ? () => {} : callAfter(timeout_ms, () => void this.expire(id));
      const abort = () => this.giveUp(id, new SvcError('timed_out', 'The request was cancelled.'));
      const settle = (done: () => void) => {
        stop();
        signal?.removeEventListener('abort', abort);
        this.open.delete(id);
        queue.end();
        done();
      };
      this.open.set(id, {
        event: (event) => queue.push(event as E),
        result: (value) => settle(() => resolve(value as Results[M])),
        error: (error) => settle(() => reject(error)),
      });
      signal?.addEventListener('abort', abort);
      if (signal?.aborted) abort();
      else this.write(id, { id, method, params });
    });
    // A caller that never awaits the result must not crash the process.
    result.catch(() => {});
    return { result, [Symbol.asyncIterator]: () => queue };
  }

  private write(id: number, request: object): void {
    if (this.ended !== null) this.open.get(id)?.error(this.ended);
    else this.socket.write(`${JSON.stringify(request)}\n`);
  }

  private giveUp(id: number, error: SvcError): void {
    const open = this.open.get(id);
    if (open === undefined) return;
    if (this.ended === null) this.socket.write(`${JSON.stringify({ id, cancel: true })}\n`);
    open.error(error);
  }

  /** Gives up a request that waits too long. A daemon that never answered may say why elsewhere. */
  private async expire(id: number): Promise<void> {
    const { whyUnread } = this.options;
    const known = this.socket.bytesRead > 0 ? null : await whyUnread().catch(() => null);
    this.giveUp(id, known ?? new SvcError('timed_out'));
  }

  private receive(line: string): void {
    const answer = this.ended === null ? parse(line) : undefined;
    if (answer === undefined) return;
    const open = answer === null ? undefined : this.open.get(answer.id);
    if (answer === null) this.end(foreignProcessError());
    else if (answer.error !== undefined && answer.id === 0)
      this.end(this.options.explain(fromBody(answer.error)));
    else if (answer.error !== undefined) open?.error(this.options.explain(fromBody(answer.error)));
    else if ('result' in answer) open?.result(answer.result);
    else open?.event(answer.event);
  }

  private lose(cause?: NodeJS.ErrnoException): void {
    const lost = new SvcError('connection_lost', undefined, { cause });
    if (this.ended !== null || this.socket.bytesRead > 0) this.end(lost);
    else this.looking ??= this.explain(lost, cause).then((error) => this.end(error));
  }

  /** Explains a connection without any answer. */
  private async explain(lost: SvcError, cause?: NodeJS.ErrnoException): Promise<SvcError> {
    const known = await this.options.whyUnread().catch(() => null);
    const isReset = cause?.code === 'ECONNRESET' || cause?.code === 'EPIPE';
    if (known !== null || !isReset) return known ?? lost;
    return (await isServed(this.options.path)) ? lost : notRunningError(cause);
  }

  /** Ends the connection and all its open requests, once. */
  private end(error: SvcError): void {
    if (this.ended !== null) return;
    this.ended = error;
    for (const open of [...this.open.values()]) open.error(error);
    // A quick command exits first, and needs no stream taken down.
    setImmediate(() => this.socket.destroy());
  }
}

function foreignProcessError(): SvcError {
  const hint = 'Check the versions with: svc version';
  return new SvcError('connection_lost', 'The process on the local socket is not an svc daemon.', {
    hint,
  });
}

interface Answer {
  id: number;
  event?: unknown;
  result?: unknown;
  error?: Partial<ErrorBody>;
}

function parse(line: string): Answer | null {
  try {
    const value = JSON.parse(line) as Answer | null;
    if (typeof value !== 'object' || value === null || !Number.isSafeInteger(value.id)) return null;
    if (value.error !== undefined && (typeof value.error !== 'object' || value.error === null))
      return null;
    return 'event' in value || 'result' in value || value.error !== undefined ? value : null;
  } catch {
    return null;
  }
}

const EVENTS_WAITING_MAX = 1024;

/**
 * Events that the caller has not read yet. Too many of them pause the socket, with all its
 * requests.
 */
class EventQueue<E> implements AsyncIterator<E, undefined> {
  private readonly socket: Socket;
  private readonly waiting: E[] = [];
  private taker: ((step: IteratorResult<E, undefined>) => void) | null = null;
  private over = false;

  constructor(socket: Socket) {
    this.socket = socket;
  }

  push(event: E): void {
    if (this.over) return;
    if (this.taker === null) {
      if (this.waiting.push(event) === EVENTS_WAITING_MAX) this.socket.pause();
      return;
    }
    this.taker({ done: false, value: event });
    this.taker = null;
  }

  end(): void {
    this.over = true;
    this.taker?.({ done: true, value: undefined });
  }

  next(): Promise<IteratorResult<E, undefined>> {
    const value = this.waiting.shift();
    if (value !== undefined) {
      if (this.waiting.length === 0) this.socket.resume();
      return Promise.resolve({ done: false, value });
    }
    if (this.over) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => {
      this.taker = resolve;
    });
  }

  async return(): Promise<IteratorResult<E, undefined>> {
    this.waiting.length = 0;
    this.over = true;
    this.socket.resume();
    return { done: true, value: undefined };
  }
}
