import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { isLoopback, parseAddress } from '../../config/address.ts';
import type { Settings } from '../../config/settings.ts';
import { SvcError } from '../../errors.ts';
import { HEADERS_MAX } from '../../limits.ts';
import { type Holder, unboundedHolder } from './holder.ts';
import { pathTokenOf } from './path-token.ts';
import type { Sessions } from './session.ts';
import {
  bearerOf,
  hasDifferentTokens,
  holderOf,
  NEVER,
  type TokenSources,
} from './token-access.ts';

/**
 * Checks who may send a request over TCP. HTTP requests and WebSocket upgrades have the same rules.
 *
 * 1. Host names this machine and our port, over TLS a name of our certificate, or is one of
 *    `allowed_hosts`. A page that resolves its own name to us is refused: it has no such name. A
 *    request with a valid token and without Origin is not such a page, whatever its Host: clients
 *    in containers know this machine by other names. Neither is a health probe.
 * 2. Origin, if the browser sends one, is ours or in `allowed_origins`. A page of this machine and
 *    an app need no setting if they bring a valid token: no other page can know it. The origin
 *    `null` is refused, because any site can send it.
 * 3. A route that is not public needs a token, compared in constant time, or the cookie of a
 *    session. The token comes as `Authorization: Bearer`, as `x-api-key`, or in the path. Different
 *    ones are refused.
 * 4. A browser sends a cookie for any page. So a request with a cookie must come from our own page,
 *    and the browser must say so.
 * 5. Work that a session or a token admitted ends with it: `admit` returns the signal.
 * 6. A request over the local socket passes. Its file mode is the authentication, and no browser
 *    can send one.
 */

/**
 * `probe`: public, also under a foreign Host. `summary`: without the token, a client gets part of
 * the answer. `monitor`: a client of this machine needs no token if the setting `metrics_public`
 * says so.
 */
export type AccessLevel = 'public' | 'probe' | 'summary' | 'monitor' | 'token';

export interface Admission extends Holder {
  /** True for a client that may see what needs the token. */
  trusted: boolean;
}

export interface AccessOptions extends TokenSources {
  settings: Pick<Settings, 'auth' | 'allowed_origins' | 'http'> &
    Partial<Pick<Settings, 'allowed_hosts' | 'metrics_public'>>;
  sessions: Pick<Sessions, 'find'>;
  /** True for a connection of the local socket. */
  isLocal?(socket: IncomingMessage['socket']): boolean;
  /** True for a name of our certificate. */
  isServed?(name: string): boolean;
}

export interface Access {
  /** Throws invalid_request, forbidden_origin. A page of an app needs a token: unauthorised. */
  checkSource(request: IncomingMessage, level?: AccessLevel): void;
  /**
   * Throws unauthorised, and forbidden_origin for a cookie that another page sent. `isUpgrade` says
   * that the request opens a WebSocket. Its headers do not say so, since any request can have an
   * Upgrade header.
   */
  admit(request: IncomingMessage, level: AccessLevel, isUpgrade?: boolean): Admission;
  /** The Origin of a page of another origin that may read the answer. Null otherwise. */
  foreignOrigin(request: IncomingMessage): string | null;
}

export function createAccess({
  settings,
  sessions,
  isLocal = () => false,
  isServed = () => false,
  ...tokens
}: AccessOptions): Access {
  const bound = parseAddress(settings.http)?.host.toLowerCase();
  const allowed = new Set(settings.allowed_origins.map((origin) => origin.toLowerCase()));
  const { allowed_hosts: hosts = [] } = settings;
  const isOwn = (authority: string, { socket }: IncomingMessage) => {
    const { name, port } = readAuthority(authority);
    if (name === undefined || (port ?? defaultPort(socket)) !== socket.localPort) return false;
    return isThisMachine(name, socket, bound) || (isSecure(socket) && isServed(name));
  };
  const isAllowedHost = (authority: string) => hosts.some((host) => isHost(authority, host));
  const isOwnOrigin = (request: IncomingMessage) => {
    const [, scheme, own] = /^(https?):\/\/(.+)$/i.exec(request.headers.origin ?? '') ?? [];
    if (own === undefined) return false;
    // A proxy before an allowed host may end TLS, and may have another port.
    if (own.toLowerCase() === request.headers.host?.toLowerCase() && isAllowedHost(own))
      return true;
    const isSame = scheme?.toLowerCase() === (isSecure(request.socket) ? 'https' : 'http');
    return isSame && isOwn(own, request);
  };
  /**
   * A browser sends the origin with each change and each upgrade, and the site with every other
   * request.
   */
  const isOwnPage = (request: IncomingMessage, isUpgrade: boolean) => {
    const { origin, 'sec-fetch-site': site } = request.headers;
    if (origin !== undefined && !isOwnOrigin(request)) return false;
    if (isUpgrade) return origin !== undefined && (site === undefined || site === 'same-origin');
    return site === 'same-origin' && (origin !== undefined || isRead(request));
  };
  const isAllowed = ({ headers: { origin = '' } }: IncomingMessage) =>
    allowed.has(origin.toLowerCase());
  /** An app shows its token with each request, but not with the question whether it may ask. */
  const isApp = (request: IncomingMessage) =>
    settings.auth &&
    APP_ORIGIN.test(request.headers.origin ?? '') &&
    !isOwnOrigin(request) &&
    (isPreflight(request) || sentTokens(request).length > 0);
  /** No rebound page sends it: a browser adds no token by itself, and a foreign page knows none. */
  const isTokenAlone = (request: IncomingMessage) =>
    settings.auth &&
    request.headers.origin === undefined &&
    holderOf(sentTokens(request), tokens) !== null;
  const isOpen = (level: AccessLevel, { socket }: IncomingMessage) =>
    level === 'summary' ||
    (level === 'monitor' &&
      settings.metrics_public === true &&
      isLoopback(plainAddress(socket.remoteAddress)));
  return {
    checkSource(request, level) {
      checkTarget(request.url ?? '');
      // An omitted header could be the one that decides.
      if (request.rawHeaders.length > 2 * HEADERS_MAX)
        throw new SvcError(
          'headers_too_large',
          `The request has more than ${HEADERS_MAX} headers.`,
          { hint: 'Send fewer headers.' },
        );
      if (isLocal(request.socket)) return;
      const { origin } = request.headers;
      const sent = request.headersDistinct.host ?? [];
      const [host = ''] = sent;
      // Only the older HTTP has requests without one.
      const isBare = sent.length === 0 && request.httpVersion === '1.0';
      if (sent.length !== 1 && !(isBare && level === 'probe'))
        throw new SvcError('invalid_request', 'The request must have one Host header.');
      const isKnown = () => isOwn(host, request) || isAllowedHost(host);
      if (level !== 'probe' && !isKnown() && !isTokenAlone(request))
        throw new SvcError(
          'forbidden_origin',
          'The Host of the request is not a name of this daemon.',
          { hint: hostHint(host, origin, settings.auth) },
        );
      if (origin === undefined || isOwnOrigin(request) || isAllowed(request)) return;
      if (!isApp(request))
        throw new SvcError('forbidden_origin', 'The Origin of the request is not allowed.', {
          hint: originHint(origin, settings.auth),
        });
      if (!isPreflight(request) && holderOf(sentTokens(request), tokens) === null)
        throw new SvcError('unauthorised');
    },
    admit(request, level, isUpgrade = false) {
      if (isLocal(request.socket)) return withTrust(unboundedHolder(NEVER));
      if (!settings.auth) {
        if (!isPublic(level) && !isAllowed(request)) checkSite(request);
        return withTrust(unboundedHolder(NEVER));
      }
      const { origin } = request.headers;
      const sent = sentTokens(request);
      const holder = holderOf(sent, tokens);
      if (holder !== null) return withTrust(holder);
      const ended = sent.length === 0 ? sessions.find(request) : null;
      if (ended !== null && isOwnPage(request, isUpgrade)) return withTrust(unboundedHolder(ended));
      if (isPublic(level) || (sent.length === 0 && isOpen(level, request)))
        return { ...unboundedHolder(NEVER), trusted: false };
      if (ended === null)
        throw new SvcError('unauthorised', hasDifferentTokens(sent) ? TWO_TOKENS : undefined);
      throw new SvcError(
        'forbidden_origin',
        'With the cookie of a session, only the console may send this request.',
        {
          hint:
            origin === undefined
              ? 'From a script, use: svc api'
              : 'Open the console with: svc console',
        },
      );
    },
    foreignOrigin: (request) =>
      isAllowed(request) || isApp(request) ? (request.headers.origin ?? null) : null,
  };
}

/** Whether any client gets the whole answer. */
export function isPublic(level: AccessLevel): boolean {
  return level === 'public' || level === 'probe';
}

/** Whether the authority is `name`, `name:port` or `*.name`. An entry without a port fits any. */
function isHost(authority: string, entry: string): boolean {
  const asked = readAuthority(authority);
  const { name, port } = readAuthority(entry);
  if (asked.name === undefined || name === undefined) return false;
  if (port !== undefined && port !== asked.port) return false;
  return name.startsWith('*.') ? asked.name.endsWith(name.slice(1)) : asked.name === name;
}

/** What a client under another name can do. */
function hostHint(host: string, origin: string | undefined, auth: boolean): string {
  const { name } = readAuthority(host);
  const allow =
    name === undefined
      ? 'Use 127.0.0.1.'
      : `Use 127.0.0.1, or allow the name: svc config set allowed_hosts '["${name}"]'`;
  return auth && origin === undefined ? `A program sends its token. ${allow}` : allow;
}

/** What a page of another origin can do. */
function originHint(origin: string, auth: boolean): string {
  if (origin === 'null')
    return 'A page from a file has no origin. Serve it from localhost, and send the token.';
  return auth && APP_ORIGIN.test(origin)
    ? 'Send the token, or allow the origin with the setting allowed_origins.'
    : 'Allow it with the setting allowed_origins.';
}

/** Without authentication, the browser still says that another site's page sent the request. */
function checkSite({ headers }: IncomingMessage): void {
  const site = headers['sec-fetch-site'];
  if (site === undefined || site === 'same-origin' || site === 'none') return;
  throw new SvcError('forbidden_origin', 'A page of another origin may not send this request.', {
    hint: 'Allow its origin with the setting allowed_origins.',
  });
}

/** Refuses a path with an invalid escape or a hidden control character. */
function checkTarget(url: string): void {
  if (!url.startsWith('/'))
    throw new SvcError('invalid_request', 'The request target must be a path.');
  let text: string;
  try {
    text = decodeURIComponent(url);
  } catch {
    throw new SvcError('invalid_request', 'The request target has an invalid escape.');
  }
  if (CONTROL.test(text))
    throw new SvcError('invalid_request', 'The request target has a control character.');
}

/** Name and port of `host:port`; no name if it is malformed. */
function readAuthority(authority: string): { name?: string; port?: number } {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/i.exec(authority);
  const name = (match?.[1] ?? match?.[2])?.toLowerCase();
  return {
    ...(name === undefined ? {} : { name }),
    ...(match?.[3] === undefined ? {} : { port: Number(match[3]) }),
  };
}

/** True for a name of the address that received the request. */
function isThisMachine(name: string, { localAddress }: Socket, bound: string | undefined): boolean {
  return (
    name === 'localhost' ||
    name === '127.0.0.1' ||
    name === '::1' ||
    name === bound ||
    name === plainAddress(localAddress)
  );
}

/** True for a connection with TLS. */
export function isSecure(socket: Socket): boolean {
  return (socket as Partial<TLSSocket>).encrypted === true;
}

function defaultPort(socket: Socket): number {
  return isSecure(socket) ? 443 : 80;
}

/** The tokens of the request, one for each place. Empty text: the place has none. */
function sentTokens(request: IncomingMessage): string[] {
  const { headersDistinct } = request;
  const inPath = pathTokenOf(request);
  return [
    ...(inPath === null ? [] : [inPath]),
    // Node.js keeps only the first one in its other list.
    ...(headersDistinct.authorization ?? []).map(bearerOf),
    ...(headersDistinct['x-api-key'] ?? []),
  ];
}

function withTrust(holder: Holder): Admission {
  return { ...holder, trusted: true };
}

/** The question of a browser whether a page may send a request. It never has a token. */
function isPreflight({ method, headers }: IncomingMessage): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
}

function isRead({ method }: IncomingMessage): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** An IPv4-mapped IPv6 address as IPv4. */
function plainAddress(address = ''): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

/** Pages of this machine, and schemes of apps. No web site can have such an origin. */
const APP_ORIGIN = new RegExp(
  `^(${[
    String.raw`https?://(([\w-]+\.)*localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(:\d+)?`,
    '(app|capacitor|file|tauri|vscode-file|vscode-webview)://.*',
  ].join('|')})$`,
  'i',
);
const TWO_TOKENS =
  'The request has different tokens. Send one: as Authorization, as x-api-key, or in the path.';
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const CONTROL = /[\u0000-\u001f\u007f]/;
