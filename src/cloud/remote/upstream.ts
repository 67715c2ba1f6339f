import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { isLoopback } from '../../config/address.ts';
import type { ProviderConfig } from '../../config/providers/provider.ts';
import { SvcError } from '../../errors.ts';
import { readBounded } from '../../http-client/bounded-body.ts';
import { createDispatcher } from '../../http-client/dispatcher.ts';
import { Incoming } from '../../http-client/incoming.ts';
import { retryAfter } from '../../http-client/retry-after.ts';
import type { Limits } from '../../limits.ts';
import { connectionFailure } from './connection-failure.ts';
import { KeyBytes } from './echoed-key.ts';
import { statusFailure } from './failure.ts';
import { errorBody, parseUpstreamError, type Secrets, wordsIn } from './upstream-error.ts';

export interface Request {
  method: 'GET' | 'POST';
  url: string;
  /** All headers, the key included. Names are in lower case. */
  headers: Readonly<Record<string, string>>;
  body?: string | Uint8Array;
  /** The model of the request. Null: the request is about none. */
  model: string | null;
  /** Error messages never repeat these texts. */
  secrets: Secrets;
  signal: AbortSignal;
  /** The body of another try, after a refusal with these words. Null ends the tries. */
  instead?(status: number, words: string): string | null;
}

/** A successful response. */
export interface UpstreamResponse {
  readonly headers: IncomingHttpHeaders;
  readonly body: Incoming;
}

/** One provider's connections. It loads and opens nothing before the first request. */
export class Upstream {
  readonly config: ProviderConfig;
  readonly limits: Limits;
  readonly connections: Connections;
  private last: Place | null = null;

  constructor(config: ProviderConfig, env: NodeJS.ProcessEnv, limits: Limits) {
    this.config = config;
    this.limits = limits;
    this.connections = new Connections(
      () =>
        createDispatcher({
          env,
          limits,
          direct: config.base_url !== null && isLoopback(new URL(config.base_url).hostname),
          connections: 1,
          proxyError: 'provider_unreachable',
        }),
      limits.provider_runs,
    );
  }

  /** Where a request goes. Mostly it is where the one before went. */
  placeOf(url: string): Place {
    if (this.last?.url !== url) {
      const { origin, pathname, search } = new URL(url);
      const isInside = isInAddress(url, this.config.base_url);
      this.last = { url, origin, path: pathname + search, isInside };
    }
    return this.last;
  }
}

/**
 * Whether a request goes to the address of the provider: no name in it led elsewhere. Without a
 * base_url the package makes the address, and no step such as `..` may change it.
 */
export function isInAddress(url: string, base_url: string | null): boolean {
  const { origin, pathname } = new URL(url);
  const end = (path: string) => path.replace(/\/*$/, '/');
  const base = base_url === null ? null : new URL(base_url);
  const isBelow =
    base === null || (origin === base.origin && end(pathname).startsWith(end(base.pathname)));
  const added = base_url !== null && url.startsWith(base_url) ? url.slice(base_url.length) : url;
  return isBelow && !url.includes('#') && !STEPS.test(added.replace(/[?#].*/s, ''));
}

/** A segment of a path that means another one. */
const STEPS = /[/\\](?:\.|%2e){1,2}(?:[/\\]|$)/i;

interface Place {
  url: string;
  origin: string;
  path: string;
  isInside: boolean;
}

/**
 * Requests and their responses, one after the other, on one connection of their own. The caller
 * must end it.
 */
export class Exchange {
  private readonly upstream: Upstream;
  private dispatcher: Dispatcher | null = null;
  private incoming: Incoming | null = null;
  /** Stops to listen for an abort of the present request. */
  private forget: () => void = () => undefined;
  /** Whether the connection was open when the request was aborted. */
  abortedWhenOpen = false;

  constructor(upstream: Upstream) {
    this.upstream = upstream;
  }

  /** Throws SvcError. After an abort it may throw anything. */
  async send(request: Request): Promise<UpstreamResponse> {
    try {
      request.signal.throwIfAborted();
      const body = await this.dispatch(request);
      const { status, headers } = await body.head();
      if (status >= 300) return await this.handleRefusal(status, headers, body, request);
      refuseEncoding(headers);
      return { headers: withoutKey(headers, request.secrets.key), body };
    } catch (thrown) {
      const address = this.upstream.config.base_url ?? new URL(request.url).origin;
      throw request.signal.aborted ? thrown : connectionFailure(thrown, address);
    }
  }

  /**
   * `complete`: the answer is. The rest of its response may take a moment more, and the
   * caller does not wait for it. After `broken` it resolves when the connection is closed.
   */
  async end(ended: 'complete' | 'broken'): Promise<void> {
    this.forget();
    const { dispatcher, incoming } = this;
    this.dispatcher = null;
    if (dispatcher === null) return;
    const { connections, limits } = this.upstream;
    if (incoming?.isRead === true) return connections.release(dispatcher, 'complete');
    if (ended === 'broken' || incoming === null) return connections.release(dispatcher, ended);
    void incoming
      .drain(limits.provider_end_ms)
      .then((isWhole) => connections.release(dispatcher, isWhole ? 'complete' : 'broken'))
      .catch(() => undefined);
  }

  private async dispatch(request: Request): Promise<Incoming> {
    const { method, url, headers, body, model, secrets, signal } = request;
    const { connections } = this.upstream;
    const dispatcher = this.dispatcher ?? (await connections.acquire());
    this.dispatcher = dispatcher;
    signal.throwIfAborted();
    const incoming = new Incoming((received) => filterFor(received, secrets.key));
    this.incoming = incoming;
    const abort = () => {
      this.abortedWhenOpen = connections.isOpen(dispatcher);
      incoming.abort(signal.reason);
    };
    this.forget();
    signal.addEventListener('abort', abort);
    this.forget = () => signal.removeEventListener('abort', abort);
    const { origin, path, isInside } = this.upstream.placeOf(url);
    if (model !== null && !isInside) throw leadsElsewhereError(model);
    dispatcher.dispatch(
      { method, origin, path, headers: { ...OWN_HEADERS, ...headers }, body: body ?? null },
      incoming,
    );
    return incoming;
  }

  /** Throws the refusal, unless another form of the request is accepted. */
  private async handleRefusal(
    status: number,
    headers: IncomingHttpHeaders,
    body: Incoming,
    request: Request,
  ): Promise<UpstreamResponse> {
    const { provider_error_bytes } = this.upstream.limits;
    const encoding = headers['content-encoding'];
    const text = await readBounded(body, provider_error_bytes, encoding).catch(() => null);
    const { model, secrets } = request;
    // The filter has not seen compressed bytes.
    const plain = text === null ? null : KeyBytes.removeKey(secrets.key, text);
    const value = errorBody(plain, headers['content-type']);
    const instead = request.instead?.(status, wordsIn(value)) ?? null;
    if (instead !== null) return this.send({ ...request, body: instead });
    throw statusFailure(
      status,
      parseUpstreamError(value, secrets),
      { key: secrets.place, model },
      retryAfter(webHeaders(headers), status),
    );
  }
}

/** A frame of Amazon has a checksum. Its texts are filtered where they are read. */
function filterFor({ 'content-type': type = '' }: IncomingHttpHeaders, key: string | null) {
  return type.includes('vnd.amazon.eventstream') ? null : KeyBytes.of(key);
}

function withoutKey(headers: IncomingHttpHeaders, key: string | null): IncomingHttpHeaders {
  if (KeyBytes.of(key) === null) return headers;
  const plain = (text: string) => KeyBytes.removeKey(key, text);
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      plain(name),
      Array.isArray(value) ? value.map(plain) : value && plain(value),
    ]),
  );
}

function leadsElsewhereError(model: string): SvcError {
  return new SvcError(
    'model_unknown',
    `The name ${JSON.stringify(model.slice(0, SHOWN_MAX))} leads out of the address of the ` +
      'provider, so it is not asked.',
    { retryable: false },
  );
}

const SHOWN_MAX = 100;

/** Some servers refuse a request without the name of its program. */
const OWN_HEADERS = { 'user-agent': 'svc', accept: '*/*', 'accept-encoding': 'identity' };

/** A compressed body could expand beyond every bound, so no encoding is requested. */
function refuseEncoding({ 'content-encoding': encoding = 'identity' }: IncomingHttpHeaders): void {
  if (encoding.toLowerCase() !== 'identity')
    throw new SvcError(
      'provider_failed',
      'The provider compresses its answer, although the request does not allow it.',
      { retryable: false },
    );
}

/** Headers of a response in the form that `fetch` has. */
export function webHeaders(headers: IncomingHttpHeaders): Headers {
  const all = new Headers();
  for (const [name, value] of Object.entries(headers))
    for (const each of [value].flat()) if (each !== undefined) all.append(name, each);
  return all;
}

/**
 * The connections to one provider.
 *
 * 1. A connection carries one exchange at a time, so aborting an exchange closes exactly its
 *    connection.
 * 2. An aborted exchange ends when its connection is closed.
 * 3. Connections of complete exchanges are reused, up to a bound. undici closes idle ones.
 */
class Connections {
  private readonly make: () => Promise<Dispatcher>;
  private readonly idleMax: number;
  private readonly idle: Dispatcher[] = [];
  private readonly busy = new Set<Dispatcher>();
  /** Dispatchers whose connection is open now. */
  private readonly open = new WeakSet<Dispatcher>();
  private closed = false;

  constructor(make: () => Promise<Dispatcher>, idleMax: number) {
    this.make = make;
    this.idleMax = idleMax;
  }

  async acquire(): Promise<Dispatcher> {
    const dispatcher = this.idle.pop() ?? this.watch(await this.make());
    this.busy.add(dispatcher);
    return dispatcher;
  }

  async release(dispatcher: Dispatcher, ended: 'complete' | 'broken'): Promise<void> {
    this.busy.delete(dispatcher);
    if (ended === 'complete' && !this.closed && this.idle.length < this.idleMax)
      this.idle.push(dispatcher);
    else await dispatcher.destroy();
  }

  isOpen(dispatcher: Dispatcher): boolean {
    return this.open.has(dispatcher);
  }

  /** Closes active connections too. */
  async close(): Promise<void> {
    this.closed = true;
    await Promise.all(
      [...this.idle.splice(0), ...this.busy].map((dispatcher) => dispatcher.destroy()),
    );
  }

  private watch(dispatcher: Dispatcher): Dispatcher {
    return dispatcher
      .on('connect', () => this.open.add(dispatcher))
      .on('disconnect', () => this.open.delete(dispatcher));
  }
}
