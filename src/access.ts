import type { IncomingMessage } from 'node:http';
import type { Settings } from './config.ts';
import { isLoopback, parseAddress } from './config-address.ts';
import { SvcError } from './errors.ts';
import { isSame, isSignedIn } from './session.ts';

/**
 * Who may ask over TCP: the same for HTTP requests and WebSocket upgrades.
 *
 * 1. Host names this machine and our port, whatever the listener is bound to: a page that has its own name point here is refused.
 * 2. Origin, where a browser sends one, is our own or an allowed one, as the settings give it; `null` is nobody's.
 * 3. What is not public needs the token, compared in constant time, or the cookie of a session.
 * 4. A browser sends a cookie whoever's page asks: what changes something, and every upgrade, must then come from our own page.
 */

/** `loopback`: public for those who ask from this machine, for others it needs the token. */
export type Door = 'public' | 'loopback' | 'token';

export interface AccessOptions {
  settings: Pick<Settings, 'auth' | 'allowed_origins' | 'http'>;
  /** Null while there is none; then nobody has the right one. */
  token(): string | null;
  /** The time by which sessions end. */
  now?(): number;
}

export interface Access {
  /** Throws invalid_request, forbidden_origin. Asks for no token. */
  checkSource(request: IncomingMessage): void;
  /** Throws unauthorised, and forbidden_origin for a cookie that another page sent. */
  checkToken(request: IncomingMessage, door: Door): void;
  /** The Origin of a request from an allowed page that is not our own; null otherwise. */
  foreignOrigin(request: IncomingMessage): string | null;
}

export function createAccess({ settings, token, now = Date.now }: AccessOptions): Access {
  const bound = parseAddress(settings.http)?.host.toLowerCase();
  const allowed = new Set(settings.allowed_origins.map((origin) => origin.toLowerCase()));
  const isOwn = (authority: string, request: IncomingMessage) => names(authority, request, bound);
  const isOwnPage = (request: IncomingMessage) => {
    const own = /^http:\/\/(.+)$/i.exec(request.headers.origin ?? '')?.[1];
    return own !== undefined && isOwn(own, request);
  };
  const foreignOrigin = (request: IncomingMessage) => {
    const { origin } = request.headers;
    return origin !== undefined && allowed.has(origin.toLowerCase()) ? origin : null;
  };
  return {
    checkSource(request) {
      checkTarget(request.url ?? '');
      const hosts = request.headersDistinct.host ?? [];
      if (hosts.length !== 1) throw new SvcError('invalid_request', 'The request must have one Host header.');
      if (!isOwn(hosts[0] ?? '', request)) throw new SvcError('forbidden_origin', 'The Host of the request is not one of ours.');
      if (request.headers.origin === undefined || isOwnPage(request) || foreignOrigin(request) !== null) return;
      throw new SvcError('forbidden_origin', 'The Origin of the request is not allowed.', { hint: 'Allow it with the setting allowed_origins.' });
    },
    checkToken(request, door) {
      const isPublic = door === 'public' || (door === 'loopback' && isLoopback(plainAddress(request.socket.remoteAddress)));
      const { authorization } = request.headers;
      if (isPublic || !settings.auth || isRight(authorization, token())) return;
      if (authorization !== undefined || !isSignedIn(request, token(), now())) throw new SvcError('unauthorised');
      if (isOwnPage(request) || (request.headers.origin === undefined && onlyReads(request))) return;
      throw new SvcError('forbidden_origin', 'With the cookie of a session this may be asked by our own page only.');
    },
    foreignOrigin,
  };
}

/** A path whose escapes can be read and hide no control character. */
function checkTarget(url: string): void {
  if (!url.startsWith('/')) throw new SvcError('invalid_request', 'The request target must be a path.');
  let text: string;
  try {
    text = decodeURIComponent(url);
  } catch {
    throw new SvcError('invalid_request', 'The request target holds an escape that cannot be read.');
  }
  if (CONTROL.test(text)) throw new SvcError('invalid_request', 'The request target holds a control character.');
}

/** Whether `host:port` is the address that the request came in by, under one of its names. */
function names(authority: string, { socket }: IncomingMessage, bound: string | undefined): boolean {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/i.exec(authority);
  const name = (match?.[1] ?? match?.[2])?.toLowerCase();
  if (name === undefined || Number(match?.[3] ?? HTTP_PORT) !== socket.localPort) return false;
  return name === 'localhost' || name === '127.0.0.1' || name === '::1' || name === bound || name === plainAddress(socket.localAddress);
}

function isRight(authorization: string | undefined, token: string | null): boolean {
  const sent = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  return sent !== undefined && token !== null && isSame(sent, token);
}

/** A request that changes nothing; a browser that says whose page asks must not name another's. */
function onlyReads({ method, headers }: IncomingMessage): boolean {
  const site = headers['sec-fetch-site'];
  return (method === 'GET' || method === 'HEAD') && headers.upgrade === undefined && (site === undefined || site === 'same-origin' || site === 'none');
}

/** An IPv4 address that came in by an IPv6 listener, as IPv4. */
function plainAddress(address = ''): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

const HTTP_PORT = 80;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const CONTROL = /[\u0000-\u001f\u007f]/;
