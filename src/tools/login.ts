import { isDeepStrictEqual } from 'node:util';
import { createGate } from '../async/gate.ts';
import type { LoginStore } from '../config/keys/port.ts';
import { asSvcError, SvcError } from '../errors.ts';
import type { Fetch } from './bounded-fetch.ts';
import { NotSent } from './child-transport.ts';
import { type LoginLimits, loginFetch } from './login-fetch.ts';
import {
  type Challenge,
  challengeOf,
  type LoginRecord,
  readRecord,
  type SavedLogin,
  scopesBeyond,
  unionOf,
  withTokens,
  writeRecord,
} from './login-record.ts';

export interface LoginOptions {
  name: string;
  server: string;
  store: LoginStore;
  limits: LoginLimits;
  now(): number;
}

/**
 * The login at a tool server, in the daemon. `svc mcp login` makes it; here its tokens are used and
 * refreshed. It is read for each request, so that a login and a logout count at once.
 */
export class Login {
  /** No text may show them. */
  secrets: readonly string[] = [];
  /** The scopes of the last login, as of the last request. */
  private scope: string | undefined;
  private readonly options: LoginOptions;
  /** Of concurrent requests, only the first refreshes. The others find its result. */
  private readonly inTurn = createGate(1);

  constructor(options: LoginOptions) {
    this.options = options;
  }

  get server(): string {
    return this.options.server;
  }

  /**
   * `fetch` with a token. One that is refused is refreshed, and the request is sent once more. What
   * a refusal asks for is noted for the next login, whichever request met it.
   */
  wrapFetch(send: Fetch): Fetch {
    const sendWith = (token: string | null, url: string | URL, init: RequestInit = {}) => {
      const headers = new Headers(init.headers);
      if (token !== null) headers.set('authorization', `Bearer ${token}`);
      return send(url, { ...init, headers });
    };
    return async (url, init) => {
      const token = await this.token(null);
      const first = await sendWith(token, url, init);
      const next = first.status === 401 && token !== null ? await this.token(token) : null;
      if (next !== null) await first.body?.cancel();
      const answer = next === null ? first : await sendWith(next, url, init);
      if (answer.status === 401 || answer.status === 403) await this.note(answer, token !== null);
      return answer;
    };
  }

  /**
   * The error for a refusal that a login helps against. `scope`: those that the server names in a
   * 403, and empty if it names none. Null: it refuses every token.
   */
  refusal(scope: string | null, cause: unknown): SvcError {
    const { name } = this.options;
    const login = `svc mcp login ${name}`;
    const named = scope === null ? undefined : challengeOf({ scope }).scope;
    if (
      named !== undefined &&
      this.scope !== undefined &&
      scopesBeyond(named, this.scope).length === 0
    )
      return new SvcError(
        'mcp_unavailable',
        `The tool server ${name} refuses the login for want of ${scopesIn(named)}, which the ` +
          'login has asked for already.',
        {
          hint: `Ask who runs it for that right. Then log in again: ${login}`,
          retryable: false,
          cause,
        },
      );
    const [need, command] =
      scope === null
        ? ['a login', login]
        : named === undefined
          ? ['a login with more scopes, and does not name them', `${login} --scope "<scopes>"`]
          : [`a login with ${scopesIn(named)}`, login];
    return new SvcError('mcp_login_needed', `The tool server ${name} needs ${need}: ${command}`, {
      hint: `Log in with a browser: ${command}`,
      cause,
    });
  }

  /** A refused token shows that the earlier scopes were too few. */
  private async note(answer: Response, hadToken: boolean): Promise<void> {
    const { extractWWWAuthenticateParams } = await import('@modelcontextprotocol/client');
    const { resourceMetadataUrl, scope, error } = extractWWWAuthenticateParams(answer);
    if (answer.status === 403 && error !== 'insufficient_scope') return;
    const said = challengeOf({ resource_metadata: resourceMetadataUrl?.href, scope });
    const { store } = this.options;
    await this.inTurn(async () => {
      const { server, login: kept } = await readRecord(store);
      // The configuration may have the address of that login again.
      if (kept !== null && server !== this.options.server) return;
      const record = await this.read();
      const { asked, login } = record;
      const wanted = hadToken
        ? unionOf(asked?.scope, login?.scope, said.scope)
        : (asked?.scope ?? said.scope);
      const next: Challenge = {
        ...asked,
        ...said,
        ...(wanted === undefined ? {} : { scope: wanted }),
      };
      if (!isDeepStrictEqual(next, asked)) await writeRecord(store, { ...record, asked: next });
    }).catch((thrown: unknown) => {
      throw this.unavailableError(thrown);
    });
  }

  /** A token other than the refused one. Null: a login is needed. Throws mcp_unavailable. */
  private token(refused: string | null): Promise<string | null> {
    return this.inTurn(async () => {
      try {
        const { login: saved } = await this.read();
        if (saved === null) return null;
        const { access_token, refresh_token, refresh_at = Number.POSITIVE_INFINITY } = saved;
        const isRefused = access_token === refused;
        if (!isRefused && this.options.now() < refresh_at) return access_token;
        if (refresh_token !== undefined) return await this.refresh(saved, refresh_token);
        return isRefused ? null : access_token;
      } catch (thrown) {
        throw this.unavailableError(thrown);
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
    }).catch(ignoreRefusal);
    // A person has logged in or out meanwhile, in another process.
    const record = await this.read();
    const found = record.login?.access_token ?? null;
    if (found !== saved.access_token) return found;
    const login = tokens === null ? null : withTokens(saved, tokens, now());
    // The next login asks for what this one had.
    const scope = unionOf(record.asked?.scope, saved.scope);
    const asked = login === null && scope !== undefined ? { ...record.asked, scope } : record.asked;
    await writeRecord(store, { ...record, asked, login });
    return (await this.read()).login?.access_token ?? null;
  }

  private async read(): Promise<LoginRecord> {
    const record = await readRecord(this.options.store, this.options.server);
    const { access_token, refresh_token, client, scope } = record.login ?? {};
    const found = [access_token ?? [], refresh_token ?? [], client?.client_secret ?? []].flat();
    // An answer may repeat a token that ended meanwhile.
    this.secrets = [...new Set([...found, ...this.secrets])].slice(0, SECRETS_MAX);
    this.scope = scope;
    return record;
  }

  /** The text of a foreign error is left out: it may repeat a token. */
  private unavailableError(thrown: unknown): SvcError {
    const { name } = this.options;
    const why = thrown instanceof SvcError ? ` ${thrown.message}` : '';
    return new SvcError(
      'mcp_unavailable',
      `The login at the tool server ${name} cannot be refreshed now.${why}`,
      { cause: new NotSent(asSvcError(thrown).message, { cause: thrown }) },
    );
  }
}

/** Enough for five refreshes. */
const SECRETS_MAX = 15;

function scopesIn(named: string): string {
  return named.includes(' ') ? `the scopes ${named}` : `the scope ${named}`;
}

/** An authorization server that is away, or busy, may refresh the login later. */
async function ignoreRefusal(thrown: unknown): Promise<null> {
  const { OAuthError } = await import('@modelcontextprotocol/client');
  if (OAuthError.isInstance(thrown) && !LATER.has(thrown.code)) return null;
  throw thrown;
}
const LATER = new Set(['server_error', 'temporarily_unavailable', 'too_many_requests']);
