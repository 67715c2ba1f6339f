import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  LATEST_PROTOCOL_VERSION,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  OAuthError,
  type StoredOAuthClientInformation,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import { SvcError } from '../errors.ts';
import { oneLine } from '../logs/plain.ts';
import type { Fetch } from './bounded-fetch.ts';
import { type LoginOptions, type SavedLogin, withTokens, writeLogin } from './login.ts';
import { loginFetch } from './login-fetch.ts';

export interface SignInOptions extends LoginOptions {
  /** Sent to the server of tools alone. */
  headers: Record<string, string>;
  version: string;
  /** Null: svc registers itself. */
  client_id: string | null;
  /** Where the browser comes back to, if the client was registered for one port. */
  port: number;
  /** Shows the page on which a person signs in. */
  show(page: URL): Promise<void>;
}

/** What a login collects on its way. */
interface Collected {
  client?: StoredOAuthClientInformation;
  found?: OAuthDiscoveryState;
  verifier?: string;
  resource?: string;
  page?: URL;
}

/**
 * A person logs in at a server of tools, with a browser. Resolves with false if that server asks
 * for no login. Throws mcp_login_failed.
 */
export async function signIn(options: SignInOptions): Promise<boolean> {
  const { name, server, version, client_id, limits, store, now } = options;
  const { redirect, state, answer, close } = await listen(options.port, limits.mcp_login_ms);
  const { fetch, check } = await loginFetch(new URL(server), limits);
  // Only the server itself gets the headers of the configuration.
  const send: Fetch = (url, init = {}) => {
    const own = String(url) === new URL(server).href ? Object.entries(options.headers) : [];
    return fetch(url, { ...init, headers: [...new Headers(init.headers), ...own] });
  };
  const collected: Collected = client_id === null ? {} : { client: { client_id } };
  const collect = (more: Collected) => void Object.assign(collected, more);
  const provider: OAuthClientProvider = {
    redirectUrl: redirect,
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
      const { client, found, resource } = collected as Required<Collected>;
      const metadata = found.authorizationServerMetadata;
      const issuer = metadata?.issuer ?? found.authorizationServerUrl;
      const login = { server, issuer, metadata, client, resource } as Omit<
        SavedLogin,
        'access_token'
      >;
      return writeLogin(store, withTokens(login, tokens, now()));
    },
  };
  const transport = new StreamableHTTPClientTransport(new URL(server), {
    authProvider: provider,
    fetch: send,
  });
  const clientInfo = { name: 'svc', version };
  const params = { protocolVersion: LATEST_PROTOCOL_VERSION, capabilities: {}, clientInfo };
  try {
    await transport.start();
    const isOpen = await transport
      .send({ jsonrpc: '2.0', id: 1, method: 'initialize', params })
      .then(() => true, falseIfUnauthorized);
    if (isOpen || collected.page === undefined) return false;
    await options.show(collected.page);
    await transport.finishAuth(await answer);
    return true;
  } catch (thrown) {
    throw failed(name, thrown);
  } finally {
    await transport.close();
    close();
  }
}

function falseIfUnauthorized(thrown: unknown): false {
  if (UnauthorizedError.isInstance(thrown)) return false;
  throw thrown;
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

function failed(name: string, thrown: unknown): SvcError {
  // What a name leads to is refused below the request.
  for (let error = thrown; error instanceof Error; error = error.cause)
    if (error instanceof SvcError) return error;
  const { name: kind, message, cause } = thrown as Error & { cause?: { code?: unknown } };
  const said = OAuthError.isInstance(thrown)
    ? `it answered ${thrown.code}`
    : kind === 'ZodError'
      ? 'an answer has a wrong form'
      : `${message}${cause?.code === undefined ? '' : ` (${cause.code})`}`;
  const why = oneLine(said).slice(0, SAID_MAX).replace(/\.$/, '');
  const text = `The login at the server of tools ${name} failed: ${why}.`;
  return new SvcError('mcp_login_failed', text, { cause: thrown });
}
const SAID_MAX = 200;
