import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isLoopback, parseAddress, type Settings } from './config.ts';
import { SvcError } from './errors.ts';

/**
 * Who may ask over TCP: the same for HTTP requests and WebSocket upgrades.
 *
 * 1. Host names this machine and our port, whatever the listener is bound to: a page that has its own name point here is refused.
 * 2. Origin, where a browser sends one, is our own or an allowed one.
 * 3. What is not public needs the token, compared in constant time.
 */

/** `loopback`: public for those who ask from this machine, for others it needs the token. */
export type Door = 'public' | 'loopback' | 'token';

export interface AccessOptions {
  settings: Pick<Settings, 'auth' | 'allowed_origins' | 'http'>;
  /** Null while there is none; then nobody has the right one. */
  token(): string | null;
}

export interface Access {
  /** Throws invalid_request, forbidden_origin. Asks for no token. */
  checkSource(request: IncomingMessage): void;
  /** Throws unauthorised. */
  checkToken(request: IncomingMessage, door: Door): void;
  /** The Origin of a request from an allowed page that is not our own; null otherwise. */
  foreignOrigin(request: IncomingMessage): string | null;
}

export function createAccess({ settings, token }: AccessOptions): Access {
  const bound = parseAddress(settings.http)?.host.toLowerCase();
  const allowed = new Set(settings.allowed_origins.map((origin) => new URL(origin).origin));
  const isOwn = (authority: string, request: IncomingMessage) => names(authority, request, bound);
  const foreignOrigin = (request: IncomingMessage) => {
    const origin = request.headers.origin?.toLowerCase();
    return origin !== undefined && allowed.has(origin) ? origin : null;
  };
  return {
    checkSource(request) {
      checkTarget(request.url ?? '');
      const hosts = request.headersDistinct.host ?? [];
      if (hosts.length !== 1) throw new SvcError('invalid_request', 'The request must have one Host header.');
      if (!isOwn(hosts[0] ?? '', request)) throw new SvcError('forbidden_origin', 'The Host of the request is not one of ours.');
      const { origin } = request.headers;
      const own = /^http:\/\/(.+)$/i.exec(origin ?? '')?.[1];
      if (origin === undefined || (own !== undefined && isOwn(own, request)) || foreignOrigin(request) !== null) return;
      throw new SvcError('forbidden_origin', 'The Origin of the request is not allowed.', { hint: 'Allow it with the setting allowed_origins.' });
    },
    checkToken(request, door) {
      const isPublic = door === 'public' || (door === 'loopback' && isLoopback(plainAddress(request.socket.remoteAddress)));
      if (isPublic || !settings.auth || isRight(request.headers.authorization, token())) return;
      throw new SvcError('unauthorised');
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

/** Both sides are hashed, so that neither length nor content shows in the time it takes. */
function isRight(authorization: string | undefined, token: string | null): boolean {
  const sent = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  return sent !== undefined && token !== null && timingSafeEqual(hash(sent), hash(token));
}

function hash(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** An IPv4 address that came in by an IPv6 listener, as IPv4. */
function plainAddress(address = ''): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

const HTTP_PORT = 80;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const CONTROL = /[\u0000-\u001f\u007f]/;
