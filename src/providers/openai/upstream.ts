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
  headers?: Headers;
  body?: string;
  /** The model of the request. Null: the request is about none. */
  model: string | null;
  /** The request sends the key. Error messages never repeat these texts. */
  secrets: Secrets;
  signal: AbortSignal;
}

/** The body of a successful response. */
export type Body = ReadableStream<Uint8Array> | null;

type Fetched = Awaited<ReturnType<typeof import('undici').fetch>>;

/** The settings of a provider whose address is known. */
export type AddressedConfig = ProviderConfig & { base_url: string };

/** One provider's connections. It loads and opens nothing before the first request. */
export class Upstream {
  readonly config: AddressedConfig;
  readonly limits: Limits;
  readonly connections: Connections;

  constructor(config: AddressedConfig, env: NodeJS.ProcessEnv, limits: Limits) {
    this.config = config;
    this.limits = limits;
    this.connections = new Connections(
      () =>
        createDispatcher({
          env,
          limits,
          direct: isLoopback(new URL(config.base_url).hostname),
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

  constructor(upstream: Upstream) {
    this.upstream = upstream;
  }

  /** Throws SvcError. After an abort it may throw anything. */
  async send(request: Request): Promise<Body> {
    const response = await this.fetch(request).catch((thrown: unknown) => {
      throw request.signal.aborted
        ? thrown
        : connectionFailure(thrown, this.upstream.config.base_url);
    });
    if (!response.ok) throw await this.refusal(response, request);
    return response.body;
  }

  /**
   * `complete`: the response was read to its end. Otherwise resolves when the connection is
   * closed.
   */
  async end(ended: 'complete' | 'broken'): Promise<void> {
    if (this.dispatcher !== null) await this.upstream.connections.release(this.dispatcher, ended);
    this.dispatcher = null;
  }

  private async fetch({
    method,
    url,
    headers = new Headers(),
    body,
    secrets,
    signal,
  }: Request): Promise<Fetched> {
    const { fetch } = await import('undici');
    this.dispatcher ??= await this.upstream.connections.acquire();
    if (secrets.key !== null) headers.set('authorization', `Bearer ${secrets.key}`);
    return fetch(url, {
      method,
      headers: [...headers],
      signal,
      dispatcher: this.dispatcher,
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
