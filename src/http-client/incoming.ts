import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { callAfter } from '../async/timers.ts';

/** Changes the bytes of a response as they come. */
export interface ByteFilter {
  take(bytes: Buffer): Buffer;
  /** The bytes that it kept back. */
  end(): Buffer;
}

const NOTHING = Buffer.alloc(0);

/** The beginning of a response. */
export interface ResponseHead {
  status: number;
  headers: IncomingHttpHeaders;
}

/**
 * One response over a connection of undici. It owns the bytes that have come and are not read yet.
 *
 * 1. `read` returns all bytes that have come: those of one read of the socket come together.
 * 2. When `WAITING_BYTES` wait, the connection is not read until they are taken.
 * 3. Bytes that came before a failure are read before it is thrown. After an abort none are read.
 * 4. One reader waits at a time.
 * 5. A filter sees all bytes before a reader does.
 */
export class Incoming implements Dispatcher.DispatchHandler, AsyncIterable<Uint8Array> {
  private controller: Dispatcher.DispatchController | null = null;
  private start: ResponseHead | null = null;
  private waiting: Buffer[] = [];
  private bytes = 0;
  private ended = false;
  private failure: { thrown: unknown } | null = null;
  private wake: (() => void) | null = null;
  private filter: ByteFilter | null = null;
  private readonly filterFor: (headers: IncomingHttpHeaders) => ByteFilter | null;

  constructor(filterFor: (headers: IncomingHttpHeaders) => ByteFilter | null = () => null) {
    this.filterFor = filterFor;
  }

  /** Resolves when the headers have come. */
  async head(): Promise<ResponseHead> {
    while (this.start === null) {
      if (this.failure !== null) throw this.failure.thrown;
      await this.change();
    }
    return this.start;
  }

  /** Whether all bytes are read. */
  get isRead(): boolean {
    return this.ended && this.waiting.length === 0;
  }

  /** The bytes since the last call, at least one. Null: the response is complete. */
  async read(): Promise<readonly Buffer[] | null> {
    while (this.waiting.length === 0) {
      if (this.failure !== null) throw this.failure.thrown;
      if (this.ended) return null;
      if (this.controller?.paused) this.controller.resume();
      else await this.change();
    }
    const read = this.waiting;
    this.waiting = [];
    this.bytes = 0;
    return read;
  }

  /** As `read`. Undefined: none came in time. */
  async readWithin(ms: number): Promise<readonly Buffer[] | null | undefined> {
    let isLate = false;
    const stop = callAfter(ms, () => {
      isLate = true;
      this.wake?.();
    });
    try {
      while (this.waiting.length === 0 && this.failure === null && !this.ended) {
        if (isLate) return undefined;
        if (this.controller?.paused) this.controller.resume();
        else await this.change();
      }
      return await this.read();
    } finally {
      stop();
    }
  }

  /** Drops the rest of a response. False: it did not end in time, or has too much. */
  async drain(ms: number): Promise<boolean> {
    const until = performance.now() + ms;
    for (let left = WAITING_BYTES; left > 0; ) {
      const read = await this.readWithin(until - performance.now()).catch(() => undefined);
      if (read == null) return read === null;
      for (const { length } of read) left -= length;
    }
    return false;
  }

  /** Ends the request, and closes its connection. */
  abort(reason: unknown): void {
    this.waiting = [];
    this.fail(reason);
    this.controller?.abort(asError(reason));
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    for (let read = await this.read(); read !== null; read = await this.read()) yield* read;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
    if (this.failure !== null) controller.abort(asError(this.failure.thrown));
  }

  onResponseStart(
    _: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    // A status below 200 only announces the response.
    if (status < 200) return;
    this.start = { status, headers };
    this.filter = this.filterFor(headers);
    this.wake?.();
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.failure !== null) return;
    this.add(this.filter?.take(chunk) ?? chunk);
    if (this.bytes >= WAITING_BYTES) controller.pause();
    this.wake?.();
  }

  onResponseEnd(): void {
    this.add(this.filter?.end());
    this.ended = true;
    this.wake?.();
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.add(this.filter?.end());
    this.fail(error);
  }

  private add(bytes: Buffer = NOTHING): void {
    if (bytes.length === 0 || this.failure !== null) return;
    this.waiting.push(bytes);
    this.bytes += bytes.length;
  }

  private fail(thrown: unknown): void {
    this.failure ??= { thrown };
    this.wake?.();
  }

  private change(): Promise<void> {
    return new Promise((resolve) => {
      this.wake = resolve;
    });
  }
}

/** As much as one read of a socket brings. */
const WAITING_BYTES = 64 * 1024;

function asError(reason: unknown): Error {
  return reason instanceof Error
    ? reason
    : new Error('The request was given up.', { cause: reason });
}
