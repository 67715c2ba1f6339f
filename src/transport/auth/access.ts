import type { IncomingMessage } from 'node:http';
import { parseAddress } from '../../config/address.ts';
import type { Settings } from '../../config/settings.ts';
import { SvcError } from '../../errors.ts';
import { isSame, type Sessions } from './session.ts';

/**
 * Who may ask over TCP: the same for HTTP requests and WebSocket upgrades.
 *
 * 1. Host names this machine and our port, whatever the listener is bound to: a page that has its own name point here is refused.
 * 2. Origin, where a browser sends one, is our own or an allowed one, as the settings give it; `null` is nobody's.
 * 3. What is not public needs the token, compared in constant time, or the cookie of a session.
 * 4. A browser sends a cookie for any page that asks: a request with a cookie must come from our own page, and the browser must say so.
 * 5. What was let in by a session or a token ends with it: `admit` returns the signal.
 * 6. A request over the local socket passes: its file mode is the authentication, and no browser can send one.
 */

/** `summary`: anybody is answered in part; the whole needs the token. */
export type Door = 'public' | 'summary' | 'token';

export interface Admission {
  /** Whether the request may have what needs the token. */
  trusted: boolean;
  /** Aborted, with the reason, when what the request was let in by is not good any more. */
  ended: AbortSignal;
}

export interface AccessOptions {
  settings: Pick<Settings, 'auth' | 'allowed_origins' | 'http'>;
  /** Null while there is none; then nobody has the right one. */
  token(): string | null;
  sessions: Pick<Sessions, 'find'>;
  /** Aborted when the present token is not good any more. */
  tokenEnded?(): AbortSignal;
  /** Whether a connection came by the local socket. */
  isLocal?(socket: IncomingMessage['socket']): boolean;
}

export interface Access {
  /** Throws invalid_request, forbidden_origin. Asks for no token. */
  checkSource(request: IncomingMessage): void;
  /**
   * Throws unauthorised, and forbidden_origin for a cookie that another page sent. `isUpgrade` says that the request opens a WebSocket;
   * its headers alone do not, since any request can have an Upgrade header.
   */
  admit(request: IncomingMessage, door: Door, isUpgrade?: boolean): Admission;
  /** The Origin of a request from an allowed page that is not our own; null otherwise. */
  foreignOrigin(request: IncomingMessage): string | null;
}

export function createAccess({
  settings,
  token,
  sessions,
  tokenEnded = () => NEVER,
  isLocal = () => false,
}: AccessOptions): Access {
  const bound = parseAddress(settings.http)?.host.toLowerCase();
  const allowed = new Set(settings.allowed_origins.map((origin) => origin.toLowerCase()));
  const isOwn = (authority: string, request: IncomingMessage) => names(authority, request, bound);
  const isOwnOrigin = (request: IncomingMessage) => {
    const own = /^http:\/\/(.+)$/i.exec(request.headers.origin ?? '')?.[1];
    return own !== undefined && isOwn(own, request);
  };
  /** A browser tells who asks: always the origin of what changes something and of an upgrade, and the site of every other request. */
  const isOwnPage = (request: IncomingMessage, isUpgrade: boolean) => {
    const { origin, 'sec-fetch-site': site } = request.headers;
    if (origin !== undefined && !isOwnOrigin(request)) return false;
    if (isUpgrade) return origin !== undefined && (site === undefined || site === 'same-origin');
    return site === 'same-origin' && (origin !== undefined || isRead(request));
  };
  const foreignOrigin = (request: IncomingMessage) => {
    const { origin } = request.headers;
    return origin !== undefined && allowed.has(origin.toLowerCase()) ? origin : null;
  };
  return {
    checkSource(request) {
      checkTarget(request.url ?? '');
      if (isLocal(request.socket)) return;
      const hosts = request.headersDistinct.host ?? [];
      if (hosts.length !== 1)
        throw new SvcError('invalid_request', 'The request must have one Host header.');
      if (!isOwn(hosts[0] ?? '', request))
        throw new SvcError('forbidden_origin', 'The Host of the request is not one of ours.');
      if (
        request.headers.origin === undefined ||
        isOwnOrigin(request) ||
        foreignOrigin(request) !== null
      )
        return;
      throw new SvcError('forbidden_origin', 'The Origin of the request is not allowed.', {
        hint: 'Allow it with the setting allowed_origins.',
      });
    },
    admit(request, door, isUpgrade = false) {
      if (isLocal(request.socket)) return { trusted: true, ended: NEVER };
      if (!settings.auth) {
        if (door !== 'public' && foreignOrigin(request) === null) checkSite(request);
        return { trusted: true, ended: NEVER };
      }
      const { authorization, origin } = request.headers;
      if (isRight(authorization, token())) return { trusted: true, ended: tokenEnded() };
      const ended = authorization === undefined ? sessions.find(request) : null;
      if (ended !== null && isOwnPage(request, isUpgrade)) return { trusted: true, ended };
      if (door === 'public' || (door === 'summary' && authorization === undefined))
        return { trusted: false, ended: NEVER };
      if (ended === null) throw new SvcError('unauthorised');
      throw new SvcError(
        'forbidden_origin',
        'With the cookie of a session this may be asked by our own page only.',
        {
          hint:
            origin === undefined
              ? 'From a script, use: svc api'
              : 'Open the console with: svc console',
        },
      );
    },
    foreignOrigin,
  };
}

/** Without authentication a browser still says when a page that is not ours asks, also where it sends no Origin. */
function checkSite({ headers }: IncomingMessage): void {
  const site = headers['sec-fetch-site'];
  if (site === undefined || site === 'same-origin' || site === 'none') return;
  throw new SvcError('forbidden_origin', 'A page of another origin may not ask this.', {
    hint: 'Allow its origin with the setting allowed_origins.',
  });
}

/** A path whose escapes can be read and hide no control character. */
function checkTarget(url: string): void {
  if (!url.startsWith('/'))
    throw new SvcError('invalid_request', 'The request target must be a path.');
  let text: string;
  try {
    text = decodeURIComponent(url);
  } catch {
    throw new SvcError(
      'invalid_request',
      'The request target holds an escape that cannot be read.',
    );
  }
  if (CONTROL.test(text))
    throw new SvcError('invalid_request', 'The request target holds a control character.');
}

/** Whether `host:port` is the address that the request came in by, under one of its names. */
function names(authority: string, { socket }: IncomingMessage, bound: string | undefined): boolean {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/i.exec(authority);
  const name = (match?.[1] ?? match?.[2])?.toLowerCase();
  if (name === undefined || Number(match?.[3] ?? HTTP_PORT) !== socket.localPort) return false;
  return (
    name === 'localhost' ||
    name === '127.0.0.1' ||
    name === '::1' ||
    name === bound ||
    name === plainAddress(socket.localAddress)
  );
}

function isRight(authorization: string | undefined, token: string | null): boolean {
  const sent = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
  return sent !== undefined && token !== null && isSame(sent, token);
}

function isRead({ method }: IncomingMessage): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** An IPv4 address that came in by an IPv6 listener, as IPv4. */
function plainAddress(address = ''): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

const HTTP_PORT = 80;
const NEVER = new AbortController().signal;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const CONTROL = /[\u0000-\u001f\u007f]/;
