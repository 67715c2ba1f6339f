import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { SvcError } from './errors.ts';
import type { Limits } from './limits.ts';

/**
 * Signing in for browsers, which cannot send the token with a WebSocket. It owns the open tickets.
 *
 * 1. A ticket is good for one sign-in, for a minute; so is nothing else that was ever in an address.
 * 2. A session is not remembered: its cookie says until when it is good, sealed with the token, so that it outlives the process.
 * 3. Secrets are compared in constant time.
 */
export interface Sessions {
  /** A new ticket. Throws busy. */
  ticket(): string;
  /** The cookie's value for a right ticket, which is then used up, or for the token; null for a wrong one. */
  open(given: { ticket?: string; token?: string }): string | null;
  /** How long a session is good. */
  readonly max_age_s: number;
}

export interface SessionOptions {
  /** Null while there is none. */
  token(): string | null;
  limits: Pick<Limits, 'console_tickets' | 'ticket_ms' | 'session_ms'>;
  now?(): number;
}

export function createSessions({ token, limits, now = Date.now }: SessionOptions): Sessions {
  /** Good until, by ticket. */
  const tickets = new Map<string, number>();
  const max_age_s = Math.floor(limits.session_ms / 1000);
  const redeem = (given: string) => {
    const ticket = [...tickets.keys()].find((known) => isSame(known, given));
    const until = ticket === undefined ? 0 : (tickets.get(ticket) ?? 0);
    if (ticket !== undefined) tickets.delete(ticket);
    return until > now();
  };
  return {
    max_age_s,
    ticket() {
      for (const [ticket, until] of tickets) if (until <= now()) tickets.delete(ticket);
      if (tickets.size >= limits.console_tickets) throw new SvcError('busy', `${tickets.size} tickets for the console are open; each is good for a minute.`);
      const ticket = randomBytes(32).toString('base64url');
      tickets.set(ticket, now() + limits.ticket_ms);
      return ticket;
    },
    open(given) {
      const secret = token();
      if (secret === null) return null;
      const right = given.ticket !== undefined ? redeem(given.ticket) : given.token !== undefined && isSame(given.token, secret);
      return right ? seal(Math.floor(now() / 1000) + max_age_s, secret) : null;
    },
  };
}

/** Cookies are kept by host and not by port, so the port is in the name. */
export function cookieName({ socket }: IncomingMessage): string {
  return `svc_session_${socket.localPort}`;
}

/** Whether a request carries the cookie of a session that is good. */
export function isSignedIn(request: IncomingMessage, token: string | null, now: number): boolean {
  if (token === null) return false;
  const name = `${cookieName(request)}=`;
  const values = (request.headers.cookie ?? '').split(';').map((pair) => pair.trim());
  return values.some((pair) => pair.startsWith(name) && isGood(pair.slice(name.length), token, now));
}

function isGood(value: string, token: string, now: number): boolean {
  const expiry = /^(\d{1,12})\.[\w-]{43}$/.exec(value)?.[1];
  return expiry !== undefined && Number(expiry) * 1000 > now && isSame(value, seal(Number(expiry), token));
}

function seal(expiry_s: number, token: string): string {
  return `${expiry_s}.${createHmac('sha256', token).update(`session.${expiry_s}`).digest('base64url')}`;
}

/** Both sides are hashed, so that neither length nor content shows in the time it takes. */
export function isSame(one: string, other: string): boolean {
  return timingSafeEqual(hash(one), hash(other));
}

function hash(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
