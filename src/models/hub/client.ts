import type { Dispatcher, Response } from 'undici';
import { isLoopback } from '../../config/address.ts';
import { createDispatcher } from '../../http-client/dispatcher.ts';
import type { Limits } from '../../limits.ts';
import { connectionError, pullError } from '../failure.ts';
import { hubToken } from './address.ts';
import { isAllowed } from './reference.ts';

/**
 * GET requests with redirects.
 *
 * 1. The token of the hub is sent to the hub only, also after a redirect.
 * 2. Redirects are bounded and stay on https. Only this machine may redirect to this machine.
 */

export interface HubRequest {
  url: URL;
  headers?: Record<string, string>;
  /** The hub whose token is sent, to its origin only. Null: no token. */
  hub: URL | null;
  signal: AbortSignal;
}

export interface Answer {
  status: number;
  headers: Headers;
  body: ReadableStream<Uint8Array> | null;
  /** undici cancels the body of a response that is garbage-collected before the body is read. */
  response: Response;
  /** Host of the last redirect. */
  host: string;
  /** Headers of the hub about the file. */
  hubMetadata: HubMetadata;
}

export interface HubMetadata {
  commit: string | null;
  sha256: string | null;
  size_bytes: number | null;
}

export class HubClient {
  private readonly env: NodeJS.ProcessEnv;
  private readonly limits: Limits;
  private connections: Promise<Dispatcher> | null = null;

  constructor(env: NodeJS.ProcessEnv, limits: Limits) {
    this.env = env;
    this.limits = limits;
  }

  /**
   * Throws SvcError. After an abort it may throw anything. The caller must read or cancel the
   * body.
   */
  async get(request: HubRequest): Promise<Answer> {
    const hubMetadata: HubMetadata = { commit: null, sha256: null, size_bytes: null };
    for (let url = request.url, hops = 0; ; hops += 1) {
      const answer = { ...(await this.fetchOnce(url, request)), host: url.host, hubMetadata };
      if (request.hub !== null && url.origin === request.hub.origin)
        note(hubMetadata, answer.headers);
      const location = answer.headers.get('location');
      if (!REDIRECTS.has(answer.status) || location === null) return answer;
      await answer.body?.cancel();
      if (hops === this.limits.pull_redirects)
        throw pullError(
          'pull_failed',
          `${request.url.host} redirects more than ${this.limits.pull_redirects} times.`,
        );
      url = resolveRedirect(url, location);
    }
  }

  async close(): Promise<void> {
    const connections = await this.connections?.catch(() => null);
    await connections?.destroy();
  }

  private async fetchOnce(
    url: URL,
    { headers = {}, hub, signal }: HubRequest,
  ): Promise<Omit<Answer, 'host' | 'hubMetadata'>> {
    this.connections ??= createDispatcher({
      env: this.env,
      limits: this.limits,
      proxyError: 'pull_failed',
    });
    const [{ fetch }, dispatcher] = await Promise.all([import('undici'), this.connections]);
    const token = hub !== null && url.origin === hub.origin ? hubToken(this.env) : null;
    const all = {
      'accept-encoding': 'identity',
      'user-agent': 'svc',
      ...headers,
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    };
    const response = await fetch(url, {
      headers: all,
      signal,
      dispatcher,
      redirect: 'manual',
    }).catch((thrown: unknown) => {
      throw signal.aborted ? thrown : connectionError(thrown, url.host);
    });
    return {
      status: response.status,
      headers: new Headers([...response.headers]),
      body: response.body,
      response,
    };
  }
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);

function resolveRedirect(from: URL, location: string): URL {
  const url = URL.canParse(location, from.href) ? new URL(location, from) : null;
  const inward = url !== null && isLoopback(url.hostname) && !isLoopback(from.hostname);
  if (url !== null && isAllowed(url) && !inward && url.username === '') return url;
  throw pullError(
    'pull_failed',
    `${from.host} redirects to an address that is not allowed for downloads.`,
  );
}

function note(hubMetadata: HubMetadata, headers: Headers): void {
  hubMetadata.commit ??= matchOrNull(headers.get('x-repo-commit'), /^[0-9a-f]{7,64}$/);
  hubMetadata.sha256 ??= matchOrNull(
    headers.get('x-linked-etag')?.replaceAll('"', '') ?? null,
    /^[0-9a-f]{64}$/,
  );
  hubMetadata.size_bytes ??= wholeNumber(headers.get('x-linked-size'));
}

function matchOrNull(text: string | null, form: RegExp): string | null {
  return text !== null && form.test(text) ? text : null;
}

/** Null: not a number of bytes. */
export function wholeNumber(text: string | null | undefined): number | null {
  return text != null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}
