import type { Dispatcher } from 'undici';
import { isLoopback } from '../../config/address.ts';
import type { ProviderConfig } from '../../config/provider.ts';
import type { SvcError } from '../../errors.ts';
import { readBounded } from '../../http-client/bounded-body.ts';
import { createDispatcher } from '../../http-client/dispatcher.ts';
import { retryAfter } from '../../http-client/retry-after.ts';
import { parseForeignJson } from '../../json.ts';
import type { Limits } from '../../limits.ts';
import { connectionFailure } from './connection-failure.ts';
import { Connections } from './connections.ts';
import { statusFailure } from './failure.ts';
import { parseUpstreamError, type Secrets } from './upstream-error.ts';

export interface Request {
  method: 'GET' | 'POST';
  url: string;
  /** All headers, the key included. */
  headers: Headers;
  body?: string | Uint8Array;
  /** The model of the request. Null: the request is about none. */
  model: string | null;
  /** Error messages never repeat these texts. */
  secrets: Secrets;
  signal: AbortSignal;
}

/** The body of a successful response. */
export type Body = ReadableStream<Uint8Array> | null;

export interface Answered {
  headers: Headers;
  body: Body;
}

type Fetched = Awaited<ReturnType<typeof import('undici').fetch>>;

/** One provider's connections. It loads and opens nothing before the first request. */
export class Upstream {
  readonly config: ProviderConfig;
  readonly limits: Limits;
  readonly connections: Connections;

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
}

/** One request and its response, on its own connection. The caller must end it. */
export class Exchange {
  private readonly upstream: Upstream;
  private dispatcher: Dispatcher | null = null;
  /** Whether the connection was open when the request was aborted. */
  abortedWhenOpen = false;

  constructor(upstream: Upstream) {
    this.upstream = upstream;
  }

  /** Throws SvcError. After an abort it may throw anything. */
  async send(request: Request): Promise<Answered> {
    const response = await this.fetch(request).catch((thrown: unknown) => {
      const address = this.upstream.config.base_url ?? new URL(request.url).origin;
      throw request.signal.aborted ? thrown : connectionFailure(thrown, address);
    });
    if (!response.ok) throw await this.refusal(response, request);
    return { headers: new Headers([...response.headers]), body: response.body };
  }

  /**
   * `complete`: the response was read to its end. Otherwise resolves when the connection is
   * closed.
   */
  async end(ended: 'complete' | 'broken'): Promise<void> {
    if (this.dispatcher !== null) await this.upstream.connections.release(this.dispatcher, ended);
    this.dispatcher = null;
  }

  private async fetch({ method, url, headers, body, signal }: Request): Promise<Fetched> {
    const { fetch } = await import('undici');
    const { connections } = this.upstream;
    const dispatcher = this.dispatcher ?? (await connections.acquire());
    this.dispatcher = dispatcher;
    // Before the listener of undici, which closes the connection.
    signal.addEventListener(
      'abort',
      () => {
        this.abortedWhenOpen = connections.isOpen(dispatcher);
      },
      { once: true },
    );
    return fetch(url, {
      method,
      headers: [...headers],
      signal,
      dispatcher,
      redirect: 'manual',
      ...(body === undefined ? {} : { body }),
    });
  }

  private async refusal(response: Fetched, { model, secrets }: Request): Promise<SvcError> {
    const { config, limits } = this.upstream;
    const text = await readBounded(response.body, limits.provider_error_bytes).catch(() => null);
    const reported = parseUpstreamError(parseForeignJson(text), secrets);
    return statusFailure(
      response.status,
      reported,
      { key: config.key, model },
      retryAfter(new Headers([...response.headers])),
    );
  }
}
