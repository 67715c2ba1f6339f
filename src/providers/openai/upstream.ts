import type { Dispatcher } from 'undici';
import type { ProviderConfig } from '../../config/config.ts';
import type { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import { parseJson, readBounded } from './body.ts';
import { connectionFailure } from './connection.ts';
import { Connections } from './connections.ts';
import { createDispatcher } from './dispatcher.ts';
import { statusFailure } from './failure.ts';
import { retryAfter } from './retry-after.ts';
import { type Hidden, readSaid } from './upstream-error.ts';

export interface Request {
  method: 'GET' | 'POST';
  url: string;
  headers?: Headers;
  body?: string;
  /** The model that is asked for; null when it is about none. */
  model: string | null;
  /** The key is sent with the request; nothing of it all comes back in a message. */
  hidden: Hidden;
  signal: AbortSignal;
}

/** A body of success. */
export type Body = ReadableStream<Uint8Array> | null;

type Fetched = Awaited<ReturnType<typeof import('undici').fetch>>;

/** The way to one provider. It loads and opens nothing before the first request. */
export class Upstream {
  readonly config: ProviderConfig;
  readonly limits: Limits;
  readonly connections: Connections;

  constructor(config: ProviderConfig, env: NodeJS.ProcessEnv, limits: Limits) {
    this.config = config;
    this.limits = limits;
    this.connections = new Connections(
      () => createDispatcher(config.base_url, env, limits),
      limits.provider_runs,
    );
  }
}

/** One request with its answer, on a connection of its own. Whoever makes one ends it. */
export class Exchange {
  private readonly upstream: Upstream;
  private dispatcher: Dispatcher | null = null;

  constructor(upstream: Upstream) {
    this.upstream = upstream;
  }

  /** Throws SvcError. Once the signal has aborted it may throw anything. */
  async send(request: Request): Promise<Body> {
    const response = await this.fetch(request).catch((thrown: unknown) => {
      throw request.signal.aborted
        ? thrown
        : connectionFailure(thrown, this.upstream.config.base_url);
    });
    if (!response.ok) throw await this.refusal(response, request);
    return response.body;
  }

  /** `well`: the answer was read to its end. Otherwise resolves when the connection is closed. */
  async end(ended: 'well' | 'badly'): Promise<void> {
    if (this.dispatcher !== null) await this.upstream.connections.give(this.dispatcher, ended);
    this.dispatcher = null;
  }

  private async fetch({
    method,
    url,
    headers = new Headers(),
    body,
    hidden,
    signal,
  }: Request): Promise<Fetched> {
    const { fetch } = await import('undici');
    this.dispatcher ??= await this.upstream.connections.take();
    if (hidden.key !== null) headers.set('authorization', `Bearer ${hidden.key}`);
    return fetch(url, {
      method,
      headers: [...headers],
      signal,
      dispatcher: this.dispatcher,
      redirect: 'manual',
      ...(body === undefined ? {} : { body }),
    });
  }

  private async refusal(response: Fetched, { model, hidden }: Request): Promise<SvcError> {
    const { config, limits } = this.upstream;
    const text = await readBounded(response.body, limits.provider_error_bytes).catch(() => null);
    const said = readSaid(parseJson(text), hidden);
    return statusFailure(
      response.status,
      said,
      { key_env: config.key_env, model },
      retryAfter(new Headers([...response.headers])),
    );
  }
}
