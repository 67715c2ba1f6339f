import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  auth,
  isHttpsUrl,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  OAuthError,
  type StoredOAuthClientInformation,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { timeoutSignal } from '../async/timers.ts';
import type { LoginStore } from '../config/keys/port.ts';
import { hasCode, SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { oneLine } from '../logs/plain.ts';
import type { Log } from '../ports/log.ts';
import { Connection } from './connection.ts';
import { discover, issuerOf } from './discovery.ts';
import type { Launch } from './launch.ts';
import { Login, type LoginOptions } from './login.ts';
import { loginFetch } from './login-fetch.ts';
import {
  type Challenge,
  challengeOf,
  readRecord,
  scopesBeyond,
  withTokens,
  writeRecord,
} from './login-record.ts';

export interface SignInOptions extends LoginOptions {
  /** How the server is reached. Its headers are sent to it alone. */
  launch: Launch;
  limits: Limits;
  version: string;
  /**
   * The client that a person registered. An id that is an address of https is that of a document
   * about svc. Null: svc registers itself.
   */
  client_id: string | null;
  client_secret: string | null;
  /** The scopes to request. Null: those that the server names. */
  scope: string | null;
  /** Where the browser comes back to, if the client was registered for one port. */
  port: number;
  /** Shows the page on which a person signs in. */
  show(page: URL): Promise<void>;
}

/** State gathered during a login. */
interface Collected {
  client?: StoredOAuthClientInformation;
  found?: OAuthDiscoveryState;
  verifier?: string;
  resource?: string;
  page?: URL;
  asked?: Challenge;
  /** Null: all the requested scopes. */
  granted?: string | null;
}

/**
 * A person logs in at a tool server, with a browser. Resolves with the scopes that were requested
 * and not granted; null if the server asks for no login. Throws mcp_login_failed, mcp_unavailable.
 */
export async function signIn(options: SignInOptions): Promise<readonly string[] | null> {
  const { name, server, client_id, client_secret, limits, store, now } = options;
  const { fetch, check } = await loginFetch(new URL(server), limits);
  check(new URL(server));
  const record = await readRecord(store, server);
  const { redirect, state, answer, close } = await listen(options.port, limits.mcp_login_ms);
  const isDocument = client_id !== null && isHttpsUrl(client_id);
  const collected: Collected =
    client_id === null || isDocument
      ? {}
      : { client: { client_id, ...(client_secret === null ? {} : { client_secret }) } };
  const collect = (more: Collected) => void Object.assign(collected, more);
  const provider: OAuthClientProvider = {
    redirectUrl: redirect,
    ...(isDocument ? { clientMetadataUrl: client_id } : {}),
    clientMetadata: {
      client_name: 'svc',
      redirect_uris: [redirect],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    },
    state: () => state,
    clientInformation: (context) =>
      collected.client && { issuer: context?.issuer, ...collected.client },
    saveClientInformation: (client) => collect({ client }),
    saveDiscoveryState: (found) => collect({ found }),
    discoveryState: () => collected.found,
    saveCodeVerifier: (verifier) => collect({ verifier }),
    codeVerifier: () => collected.verifier ?? '',
    saveResourceUrl: (resource) => collect({ resource }),
    redirectToAuthorization: (page) => {
      check(page);
      collect({ page });
    },
    tokens: () => undefined,
    saveTokens: (tokens) => {
      const { client, found, resource, page, asked } = collected as Required<Collected>;
      const { scope } = challengeOf({ scope: page.searchParams.get('scope') });
      const issuer = issuerOf(found);
      const login = {
        issuer,
        metadata: found.authorizationServerMetadata,
        client,
        resource,
        scope,
      };
      collect({ granted: tokens.scope ?? null });
      const kept = { server, issuer, asked, login: withTokens(login as never, tokens, now()) };
      return writeRecord(store, kept);
    },
  };
  const transport = new StreamableHTTPClientTransport(new URL(server), {
    authProvider: provider,
    fetch,
  });
  try {
    const said = await findChallenge(options);
    const found = await discover(server, said ?? record.asked, fetch);
    if (found === null) return null;
    if (client_secret !== null) checkReceiver(options, record.issuer, issuerOf(found));
    // A choice of the person counts until the server refuses its token.
    const scope = options.scope ?? record.asked?.scope ?? said?.scope;
    const asked = { ...record.asked, ...said, ...(scope === undefined ? {} : { scope }) };
    collect({ found, asked });
    await auth(provider, { serverUrl: server, fetchFn: fetch, ...(scope && { scope }) });
    await options.show(collected.page as URL);
    await transport.finishAuth(await answer);
    const { granted } = collected;
    return scope === undefined || granted == null ? [] : scopesBeyond(scope, granted);
  } catch (thrown) {
    throw loginError(name, thrown);
  } finally {
    await transport.close();
    close();
  }
}

/**
 * The login that the server asks for now. The daemon's own connection finds it out, without a
 * token, so that both judge it by the same requests. Null: it refuses none of them. Throws
 * mcp_unavailable.
 */
async function findChallenge(options: SignInOptions): Promise<Challenge | null> {
  const { name, server, version, launch, limits } = options;
  let text: string | null = null;
  const store: LoginStore = {
    read: async () => text,
    write: async (written) => {
      text = written;
    },
    remove: async () => false,
  };
  const login = new Login({ ...options, store });
  const [onEnd, onToolsChanged] = [() => {}, () => {}];
  const connection = new Connection({
    name,
    version,
    launch,
    login,
    limits,
    log: SILENT,
    onEnd,
    onToolsChanged,
  });
  try {
    await connection.open(timeoutSignal(limits.mcp_start_ms));
    return null;
  } catch (thrown) {
    if (!hasCode(thrown, 'mcp_login_needed')) throw thrown;
    return (await readRecord(store, server)).asked;
  } finally {
    connection.stop();
  }
}

const SILENT: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** The tool server names the receiver of the secret, so a changed receiver is refused. */
function checkReceiver({ name }: SignInOptions, before: string | null, issuer: string): void {
  if (before === null || before === issuer) return;
  throw new SvcError(
    'mcp_login_failed',
    `${name} names ${oneLine(issuer).slice(0, SAID_MAX)} for its logins now, and named ${before} ` +
      'before. svc does not send the secret of the client there.',
    { hint: `If that is right, forget the old one first: svc mcp logout ${name}` },
  );
}

/**
 * Waits on this machine for the answer with our state. Any other request changes nothing: a page
 * that knows the port must not end the login.
 */
async function listen(port: number, wait_ms: number) {
  const state = randomBytes(32).toString('base64url');
  const { promise: answer, resolve, reject } = Promise.withResolvers<URLSearchParams>();
  const server = createServer(({ url = '', method }, res) => {
    const [path, query = ''] = url.split('?', 2);
    const fields = new URLSearchParams(query);
    const isOurs = method === 'GET' && path === '/callback' && fields.get('state') === state;
    res.writeHead(isOurs ? 200 : 400, HEADERS);
    res.end(
      isOurs ? 'svc has the answer. You can close this page.\n' : 'No login waits for this.\n',
    );
    if (isOurs) resolve(fields);
  });
  server.maxConnections = CONNECTIONS_MAX;
  await new Promise<void>((done, fail) =>
    server.once('error', fail).listen(port, HOST, done),
  ).catch((cause: NodeJS.ErrnoException) => {
    const message = `Port ${port} cannot be used (${cause.code}).`;
    throw new SvcError('mcp_login_failed', message, { cause });
  });
  const late = setTimeout(() => {
    const message = `No one signed in within ${wait_ms / 60_000} minutes.`;
    reject(new SvcError('mcp_login_failed', message));
  }, wait_ms);
  // The time may be over before anything waits for the answer.
  answer.catch(() => {});
  const close = () => {
    clearTimeout(late);
    server.close();
    server.closeAllConnections();
  };
  const redirect = `http://${HOST}:${(server.address() as AddressInfo).port}/callback`;
  return { redirect, state, answer, close };
}

const HOST = '127.0.0.1';
const HEADERS = {
  'content-type': 'text/plain; charset=utf-8',
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  connection: 'close',
};
const CONNECTIONS_MAX = 16;

function loginError(name: string, thrown: unknown): SvcError {
  // Refused addresses of a name are found below the request.
  for (let error = thrown; error instanceof Error; error = error.cause)
    if (error instanceof SvcError) return error;
  const { name: kind, message, cause } = thrown as Error & { cause?: { code?: unknown } };
  const said = OAuthError.isInstance(thrown)
    ? `it answered ${thrown.code}`
    : kind === 'ZodError'
      ? 'an answer has a wrong form'
      : `${message}${cause?.code === undefined ? '' : ` (${cause.code})`}`;
  const why = oneLine(said).slice(0, SAID_MAX).replace(/\.$/, '');
  const text = `The login at the tool server ${name} failed: ${why}.`;
  const isScope = OAuthError.isInstance(thrown) && thrown.code === 'invalid_scope';
  const hint = isScope
    ? `Say what to ask for: svc mcp login ${name} --scope "<scopes>"`
    : undefined;
  return new SvcError('mcp_login_failed', text, { hint, cause: thrown });
}
const SAID_MAX = 200;
