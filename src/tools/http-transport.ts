import { setTimeout as wait } from 'node:timers/promises';
import {
  extractWWWAuthenticateParams,
  type JSONRPCMessage,
  type RequestId,
  type Transport,
} from '@modelcontextprotocol/client';
import { anySignal } from '../async/signals.ts';
import { timeoutSignal } from '../async/timers.ts';
import { retryAfter } from '../http-client/retry-after.ts';
import { asRecord, parseForeignJson } from '../json.ts';
import type { Limits } from '../limits.ts';
import { oneLine } from '../logs/plain.ts';
import type { Fetch } from './bounded-fetch.ts';
import { EventStream } from './event-stream.ts';
import { Excess, type MessageGate } from './message-gate.ts';

/** A tool server refuses a request with this status, so it did not carry it out. */
export class HttpRefusal extends Error {
  readonly status: number;
  /** The time until it may be called again, as the server says. */
  readonly retry_after_ms: number | null;
  /** The server does not know the session any more. */
  readonly isSessionGone: boolean;
  /** The scopes that are missing, empty if it does not name them. Null: it is not for a scope. */
  readonly scope: string | null;

  /** `words`: the beginning of the body. */
  constructor(response: Response, words: string, isSessionGone: boolean) {
    super(`answered HTTP ${response.status}${reasonIn(words)}`);
    this.status = response.status;
    this.retry_after_ms = retryAfter(response.headers, response.status);
    this.isSessionGone = isSessionGone;
    const { error, scope = '' } = extractWWWAuthenticateParams(response);
    this.scope = response.status === 403 && error === 'insufficient_scope' ? scope : null;
  }
}

/** The answer to a request is not the response that MCP asks for. The message says how. */
export class BadAnswer extends Error {}

export interface HttpOptions {
  url: URL;
  headers: Record<string, string>;
  fetch: Fetch;
  gate: MessageGate;
  limits: Limits;
  /** The server exceeds a bound, apart from an answer that is waited for. */
  onExcess(excess: Excess): void;
}

/**
 * The streamable HTTP of MCP. That of the official client parses what comes before anyone can judge
 * it, so svc has its own.
 *
 * 1. All that comes passes the gate, as it comes.
 * 2. `send` of a request ends with its response. One that cannot come any more is an error at once.
 * 3. A stream that ends before the response is resumed if it had the id of an event.
 * 4. The stream of the server's own messages is opened again after waits that grow, also after a
 *    clean end.
 */
export class HttpTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport['onmessage'];
  sessionId: string | undefined;
  private readonly options: HttpOptions;
  private readonly closed = new AbortController();
  /** Ends the request of each that waits for its response. */
  private readonly open = new Map<RequestId, AbortController>();
  private protocol: string | null = null;
  private replies = 0;
  /** The stream of the server's own messages is open. */
  private isListening = false;

  constructor(options: HttpOptions) {
    this.options = options;
  }

  async start(): Promise<void> {}

  setProtocolVersion(version: string): void {
    this.protocol = version;
  }

  async send(message: JSONRPCMessage): Promise<void> {
    this.options.gate.note(message);
    if (!('method' in message)) return this.reply(message);
    if ('id' in message) return this.ask(message.id, message.method, message);
    if (message.method === 'notifications/cancelled')
      this.open.get(message.params?.requestId as RequestId)?.abort();
    const response = await this.post(message, this.closed.signal);
    await response.body?.cancel();
    if (message.method === 'notifications/initialized')
      this.listen().catch((error: Error) => this.noteEnd(error));
  }

  async close(): Promise<void> {
    if (this.closed.signal.aborted) return;
    this.closed.abort();
    this.onclose?.();
  }

  /** Ends the session at the server. */
  async leave(): Promise<void> {
    const { limits } = this.options;
    if (this.sessionId === undefined) return;
    const signal = anySignal([this.closed.signal, timeoutSignal(limits.mcp_stop_ms)]);
    const response = await this.request('DELETE', {}, signal);
    await response.body?.cancel();
  }

  private async ask(id: RequestId, method: string, message: JSONRPCMessage): Promise<void> {
    const { gate } = this.options;
    const control = new AbortController();
    const signal = anySignal([this.closed.signal, control.signal]);
    this.open.set(id, control);
    try {
      const response = await this.post(message, signal);
      if (method === 'initialize')
        this.sessionId = response.headers.get('mcp-session-id') ?? undefined;
      // Some servers answer in the stream of their own messages.
      if (response.status === 202 && this.isListening) return;
      await this.readAnswer(response, id, signal);
    } catch (thrown) {
      gate.drop(id);
      throw thrown;
    } finally {
      // The connection of a stream that stays open is closed.
      control.abort();
      this.open.delete(id);
    }
  }

  private async readAnswer(response: Response, id: RequestId, signal: AbortSignal): Promise<void> {
    const type = typeOf(response);
    if (type === JSON_TYPE) await this.readJson(response, id);
    else if (type === EVENTS) await this.readStream(response, id, signal);
    else throw new BadAnswer(`answered with ${oneLine(type).slice(0, TYPE_MAX) || 'nothing'}`);
    if (this.options.gate.isOpen(id)) throw new BadAnswer(NO_RESPONSE);
  }

  /** A server that takes no answers to its requests may not send more of them. */
  private async reply(message: JSONRPCMessage): Promise<void> {
    const { limits, onExcess } = this.options;
    if (this.replies >= limits.mcp_requests) {
      onExcess(new Excess(`it does not take the answers to its requests`));
      return;
    }
    this.replies += 1;
    try {
      const response = await this.post(message, this.closed.signal);
      await response.body?.cancel();
    } finally {
      this.replies -= 1;
    }
  }

  private async readJson(response: Response, id: RequestId): Promise<void> {
    const { gate } = this.options;
    const pieces: Uint8Array[] = [];
    let bytes = 0;
    for await (const piece of response.body ?? []) {
      bytes += piece.length;
      gate.count(piece.length, bytes);
      pieces.push(piece);
    }
    const messages = gate.read(Buffer.concat(pieces, bytes), id);
    if (messages === null) throw new BadAnswer('sent an answer that is not JSON');
    for (const message of messages) this.onmessage?.(message);
  }

  /** Reads the stream up to the response to this request. */
  private async readStream(first: Response, id: RequestId, signal: AbortSignal): Promise<void> {
    const { gate } = this.options;
    const stream = this.stream(() => !gate.isOpen(id), id);
    let response: Response | null = first;
    for (let failures = 0; failures < RESUMES; failures += 1) {
      const before = stream.events;
      if (response !== null) await stream.read(response).catch((error) => this.noteBreak(error));
      if (!gate.isOpen(id) || stream.last_id === null) return;
      // A server may close the stream of long work, and have svc come again.
      if (stream.events > before) failures = 0;
      await wait(stream.retry_ms ?? backoff(failures), undefined, { signal });
      response = await this.streamFrom(stream.last_id, signal);
    }
  }

  /** The messages that the server sends by itself. It need not offer such a stream. */
  private async listen(): Promise<void> {
    const { signal } = this.closed;
    const stream = this.stream(() => false);
    let isOffered = false;
    for (let failures = 0; failures < REOPENS; failures += 1) {
      const begun = performance.now();
      const response = await this.streamFrom(stream.last_id, signal);
      isOffered ||= response !== null;
      if (!isOffered) return;
      this.isListening = response !== null;
      if (response !== null) await stream.read(response).catch((error) => this.noteBreak(error));
      this.isListening = false;
      if (performance.now() - begun > LASTING_MS) failures = 0;
      await wait(Math.max(stream.retry_ms ?? 0, backoff(failures)), undefined, { signal });
    }
  }

  private noteEnd(error: Error): void {
    if (error instanceof Excess) this.options.onExcess(error);
    // Most servers offer no such stream.
    else if (!(error instanceof BadAnswer || this.closed.signal.aborted)) this.onerror?.(error);
  }

  private stream(isOver: () => boolean, only?: RequestId): EventStream {
    const { gate } = this.options;
    const deliver = (message: JSONRPCMessage) => this.onmessage?.(message);
    return new EventStream({
      gate,
      limits: this.options.limits,
      isOver,
      deliver,
      request_id: only,
    });
  }

  /** A stream, or its continuation after this event. Null: no stream now. */
  private async streamFrom(last_id: string | null, signal: AbortSignal): Promise<Response | null> {
    const headers = { accept: EVENTS, ...(last_id === null ? {} : { 'last-event-id': last_id }) };
    try {
      const response = await this.request('GET', { headers }, signal);
      if (typeOf(response) === EVENTS) return response;
      await response.body?.cancel();
      return null;
    } catch (thrown) {
      if (signal.aborted) throw thrown;
      // The server has it no more.
      if (thrown instanceof HttpRefusal && thrown.status < 500)
        throw new BadAnswer(NO_RESPONSE, { cause: thrown });
      return null;
    }
  }

  /** A connection that broke is opened again. That of a server over a bound is not. */
  private noteBreak(error: Error): void {
    if (error instanceof Excess) throw error;
    if (!this.closed.signal.aborted) this.onerror?.(error);
  }

  private post(message: JSONRPCMessage, signal: AbortSignal): Promise<Response> {
    const headers = { 'content-type': 'application/json', accept: `application/json, ${EVENTS}` };
    return this.request('POST', { headers, body: JSON.stringify(message) }, signal);
  }

  /** Throws HttpRefusal for a status that is not a success. */
  private async request(
    method: string,
    { headers: more = {}, body }: { headers?: Record<string, string>; body?: string },
    signal: AbortSignal,
  ): Promise<Response> {
    const { url, fetch } = this.options;
    const headers = new Headers(this.options.headers);
    for (const [name, value] of Object.entries(more)) headers.set(name, value);
    // The session begins with the answer to its first request.
    if (this.sessionId !== undefined) headers.set('mcp-session-id', this.sessionId);
    if (this.protocol !== null) headers.set('mcp-protocol-version', this.protocol);
    const response = await fetch(url, { method, headers, signal, ...(body && { body }) });
    if (response.ok) return response;
    const words = await firstWords(response);
    // 404 means this. Some servers send 400 instead, and name the session.
    const isGone = response.status === 404 || (response.status === 400 && /session/i.test(words));
    throw new HttpRefusal(response, words, isGone && this.sessionId !== undefined);
  }
}

/** The beginning of a body. */
async function firstWords({ body }: Response): Promise<string> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of body ?? []) {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes > WORDS_MAX) break;
  }
  return Buffer.concat(pieces).subarray(0, WORDS_MAX).toString('utf8');
}

/** The message of the error of JSON-RPC in the words. */
function reasonIn(words: string): string {
  const { message } = asRecord(asRecord(parseForeignJson(words)).error);
  return typeof message === 'string' && message !== '' ? `: ${message}` : '';
}

const JSON_TYPE = 'application/json';
const EVENTS = 'text/event-stream';
const TYPE_MAX = 80;
const NO_RESPONSE = 'ended its answer without the response';

function typeOf({ headers }: Response): string {
  return (headers.get('content-type') ?? '').split(';', 1).join('').trim().toLowerCase();
}

/** How often a stream is resumed, and opened again, without a success. */
const RESUMES = 4;
const REOPENS = 10;
/** A stream that was open for so long works. */
const LASTING_MS = 30_000;
const WORDS_MAX = 4096;

function backoff(failures: number): number {
  return Math.min(BACKOFF_MS.most, BACKOFF_MS.first * 2 ** failures);
}

const BACKOFF_MS = { first: 500, most: 60_000 };
