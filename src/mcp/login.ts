import type { OAuthTokens } from '@modelcontextprotocol/client';
import * as v from 'valibot';
import { createGate } from '../async/gate.ts';
import { asSvcError, SvcError } from '../errors.ts';
import { parseForeignJson } from '../json.ts';
import type { LoginStore } from '../providers/keys/port.ts';
import type { Fetch } from './bounded-fetch.ts';
import { NotSent } from './child-transport.ts';
import { type LoginLimits, loginFetch } from './login-fetch.ts';

/** A message without the token, which would be in that of the schema. */
const token = v.pipe(v.string(), v.regex(/^[\x21-\x7e]+$/, 'a token has a wrong form'));

/** What a login leaves. It is kept where the keys are, as one text without spaces. */
const savedLogin = v.object({
  /** The address of the server. No other gets the tokens. */
  server: v.string(),
  issuer: v.string(),
  /** Of the authorization server: what a refresh needs. Absent: it does not say. */
  metadata: v.optional(
    v.object({
      token_endpoint: v.string(),
      token_endpoint_auth_methods_supported: v.optional(v.array(v.string())),
    }),
  ),
  client: v.object({
    client_id: v.string(),
    client_secret: v.optional(v.string()),
    token_endpoint_auth_method: v.optional(v.string()),
  }),
  resource: v.optional(v.string()),
  access_token: token,
  refresh_token: v.optional(token),
  /** When a tenth of its time is left. Absent: the server does not say. */
  refresh_at: v.optional(v.number()),
});
export type SavedLogin = v.InferOutput<typeof savedLogin>;

export function withTokens(
  login: Omit<SavedLogin, 'access_token' | 'refresh_at'>,
  { access_token, refresh_token, expires_in }: OAuthTokens,
  now: number,
): SavedLogin {
  const isKnown = expires_in !== undefined && expires_in > 0;
  const refresh_at = isKnown ? now + expires_in * 900 : undefined;
  return { ...login, access_token, refresh_token, refresh_at };
}

export async function writeLogin(store: LoginStore, login: SavedLogin): Promise<void> {
  const text = JSON.stringify(v.parse(savedLogin, login));
  await store.write(Buffer.from(text).toString('base64url'));
}

/** Null: there is none for this address. */
async function readLogin(store: LoginStore, server: string): Promise<SavedLogin | null> {
  const text = await store.read();
  const json = text === null ? null : Buffer.from(text, 'base64url').toString();
  const found = v.safeParse(savedLogin, parseForeignJson(json));
  return found.success && found.output.server === server ? found.output : null;
}

export interface LoginOptions {
  name: string;
  server: string;
  store: LoginStore;
  limits: LoginLimits;
  now(): number;
}

/**
 * The login at a server of tools, in the daemon. `svc mcp login` makes it; here its tokens are used
 * and refreshed. It is read for each request, so that a login and a logout count at once.
 */
export class Login {
  /** No text may show them. */
  secrets: readonly string[] = [];
  private readonly options: LoginOptions;
  /** Of requests at one time, only the first refreshes. The others find what it got. */
  private readonly inTurn = createGate(1);

  constructor(options: LoginOptions) {
    this.options = options;
  }

  get server(): string {
    return this.options.server;
  }

  /** `fetch` with a token. One that is refused is refreshed, and the request is sent once more. */
  around(send: Fetch): Fetch {
    const sendWith = (token: string | null, url: string | URL, init: RequestInit = {}) => {
      const headers = new Headers(init.headers);
      if (token !== null) headers.set('authorization', `Bearer ${token}`);
      return send(url, { ...init, headers });
    };
    return async (url, init) => {
      const token = await this.token(null);
      const answer = await sendWith(token, url, init);
      const next = answer.status === 401 && token !== null ? await this.token(token) : null;
      if (next === null) return answer;
      await answer.body?.cancel();
      return sendWith(next, url, init);
    };
  }

  /** A token other than the refused one. Null: there is none. Throws mcp_unavailable. */
  private token(refused: string | null): Promise<string | null> {
    return this.inTurn(async () => {
      try {
        const saved = await this.read();
        if (saved === null) return null;
        const { access_token, refresh_token, refresh_at = Number.POSITIVE_INFINITY } = saved;
        const isRefused = access_token === refused;
        if (!isRefused && this.options.now() < refresh_at) return access_token;
        if (refresh_token !== undefined) return await this.refresh(saved, refresh_token);
        return isRefused ? null : access_token;
      } catch (thrown) {
        throw this.unavailable(thrown);
      }
    });
  }

  private async refresh(saved: SavedLogin, refreshToken: string): Promise<string | null> {
    const { store, server, limits, now } = this.options;
    const { refreshAuthorization } = await import('@modelcontextprotocol/client');
    const { fetch: fetchFn } = await loginFetch(new URL(server), limits);
    const { issuer, metadata, client, resource } = saved;
    const tokens = await refreshAuthorization(issuer, {
      // The client reads no other field for a refresh.
      metadata: metadata as never,
      clientInformation: client,
      refreshToken,
      fetchFn,
      ...(resource === undefined ? {} : { resource }),
    }).catch(nullIfRefused);
    // A person has logged in or out meanwhile, in another process.
    const found = await this.read();
    if (found?.access_token !== saved.access_token) return found?.access_token ?? null;
    if (tokens === null) {
      await store.remove();
      return null;
    }
    await writeLogin(store, withTokens(saved, tokens, now()));
    return (await this.read())?.access_token ?? null;
  }

  private async read(): Promise<SavedLogin | null> {
    const saved = await readLogin(this.options.store, this.options.server);
    this.secrets = [saved?.access_token ?? [], saved?.refresh_token ?? []].flat();
    return saved;
  }

  /** The text of a foreign error is left out: it may repeat a token. */
  private unavailable(thrown: unknown): SvcError {
    const { name } = this.options;
    const why = thrown instanceof SvcError ? ` ${thrown.message}` : '';
    return new SvcError(
      'mcp_unavailable',
      `The login at the server of tools ${name} cannot be refreshed now.${why}`,
      { cause: new NotSent(asSvcError(thrown).message, { cause: thrown }) },
    );
  }
}

/** An authorization server that is away, or busy, may refresh the login later. */
async function nullIfRefused(thrown: unknown): Promise<null> {
  const { OAuthError } = await import('@modelcontextprotocol/client');
  if (OAuthError.isInstance(thrown) && !LATER.has(thrown.code)) return null;
  throw thrown;
}
const LATER = new Set(['server_error', 'temporarily_unavailable', 'too_many_requests']);
