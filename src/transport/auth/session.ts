import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { TIMER_MAX_MS } from '../../async/timers.ts';
import { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import type { SessionFile } from './session-file.ts';

/**
 * Signs browsers in, which cannot send the token with a WebSocket. It owns the open tickets and the
 * live sessions.
 *
 * 1. A ticket is valid for one sign-in, for a minute. Nothing else that was in an address is ever
 *    valid.
 * 2. A cookie is valid while its session is live. Sign-out, expiry, newer sessions or a new token
 *    end the session. The list of live sessions outlives the process. It has no secret, since the
 *    token seals the cookie.
 * 3. What a session opened, such as a stream, ends with it: each session has a signal.
 * 4. A page can ask the daemon to prove that it has a secret, before the page sends that secret.
 *    The proof is bound to the port.
 * 5. Secrets are compared in constant time.
 */
export interface Sessions {
  /** A new ticket. `over` is called once, when the ticket is used or expires. Throws busy. */
  ticket(over?: () => void): string;
  /**
   * A new session for a valid ticket, which is used up, or for the token. Null for a wrong one.
   * `note` names the address `from`.
   */
  open(credential: { ticket?: string; token?: string }, from?: string): Promise<NewSession | null>;
  /** The signal of the session of a request's cookie. Null without a live session. */
  find(request: IncomingMessage): AbortSignal | null;
  /** Ends the session of a request's cookie. Throws home_unusable if the end cannot be saved. */
  close(request: IncomingMessage): Promise<void>;
  /** Ends every session and invalidates every ticket. */
  closeAll(): Promise<void>;
  /** The proof that this process has the secret. Null for an unknown secret. */
  prove(question: Question): string | null;
  /** How long a session is valid. */
  readonly max_age_s: number;
}

export interface NewSession {
  cookie: string;
  /** Names the session in requests for a proof. It is not a secret. */
  id: string;
  /** The secret with which the daemon proves itself to the page of this session. */
  key: string;
  expires_at: number;
}

/** `by` names the secret: `token`, `session.<id>`, or `ticket.<SHA-256 of it>`. */
export interface Question {
  by: string;
  nonce: string;
  port: number;
}

export interface SessionOptions {
  /** Null while there is no token. */
  token(): string | null;
  limits: Pick<Limits, 'console_tickets' | 'ticket_ms' | 'console_sessions' | 'session_ms'>;
  /** The file of the live sessions. Without it, the list ends with the process. */
  file?: SessionFile;
  /** Gets a line for each session that begins or ends. */
  note?(line: string): void;
  now?(): number;
}

interface Session {
  until_s: number;
  end: AbortController;
}

interface Ticket {
  until: number;
  over(): void;
}

export function createSessions(options: SessionOptions): Sessions {
  const { token, limits, file, note = () => {}, now = Date.now } = options;
  const tickets = new Map<string, Ticket>();
  /** By id, oldest first. */
  const live = new Map<string, Session>();
  const max_age_s = Math.floor(limits.session_ms / 1000);
  let timer: NodeJS.Timeout | undefined;

  const add = (id: string, until_s: number) => {
    live.set(id, { until_s, end: new AbortController() });
    arm();
  };
  const end = (id: string, why: string) => {
    live.get(id)?.end.abort(new SvcError('unauthorised', why));
    live.delete(id);
    note(`console session ${id.slice(0, 8)} ended. ${why}`);
  };
  const expire = () => {
    for (const [id, { until_s }] of live)
      if (until_s * 1000 <= now()) end(id, 'The session has expired.');
    for (const [ticket, { until }] of tickets) if (until <= now()) drop(ticket);
    arm();
  };
  /** One timer serves the next session or ticket that expires. */
  const arm = () => {
    clearTimeout(timer);
    const next = Math.min(
      ...[...live.values()].map(({ until_s }) => until_s * 1000),
      ...[...tickets.values()].map(({ until }) => until),
    );
    if (next !== Number.POSITIVE_INFINITY)
      timer = setTimeout(expire, Math.min(Math.max(next - now(), 1), TIMER_MAX_MS)).unref();
  };
  const drop = (ticket: string) => {
    tickets.get(ticket)?.over();
    tickets.delete(ticket);
  };
  const redeem = (code: string) => {
    const ticket = [...tickets.keys()].find((known) => isSame(known, code));
    const isGood = ticket !== undefined && (tickets.get(ticket)?.until ?? 0) > now();
    if (ticket !== undefined) drop(ticket);
    return isGood;
  };
  const write = async () => file?.write([...live].map(([id, { until_s }]) => ({ id, until_s })));
  /** The id of the live session of a request's cookie. */
  const idOf = (request: IncomingMessage): string | null => {
    const secret = token();
    if (secret === null) return null;
    for (const value of cookieValues(request)) {
      const [, id = '', expiry = ''] = COOKIE.exec(value) ?? [];
      const session = live.get(id);
      if (
        session === undefined ||
        session.until_s !== Number(expiry) ||
        session.until_s * 1000 <= now()
      )
        continue;
      if (isSame(value, cookie(id, session.until_s, secret))) return id;
    }
    return null;
  };
  for (const { id, until_s } of file?.read() ?? []) if (until_s * 1000 > now()) add(id, until_s);

  return {
    max_age_s,
    ticket(over = () => {}) {
      expire();
      if (tickets.size >= limits.console_tickets)
        throw new SvcError(
          'busy',
          `${tickets.size} tickets for the console are open; each is valid for a minute.`,
        );
      const ticket = randomBytes(32).toString('base64url');
      tickets.set(ticket, { until: now() + limits.ticket_ms, over });
      arm();
      return ticket;
    },
    async open(credential, from = 'an unknown address') {
      const secret = token();
      if (secret === null) return null;
      const isRight =
        credential.ticket !== undefined
          ? redeem(credential.ticket)
          : credential.token !== undefined && isSame(credential.token, secret);
      if (!isRight) return null;
      expire();
      for (const id of [...live.keys()].slice(
        0,
        Math.max(0, live.size + 1 - limits.console_sessions),
      ))
        end(id, 'Newer sessions replaced it.');
      const id = randomBytes(16).toString('base64url');
      const until_s = Math.floor(now() / 1000) + max_age_s;
      add(id, until_s);
      await write();
      note(
        `console session ${id.slice(0, 8)} began: signed in from ${from} with ` +
          `${credential.ticket === undefined ? 'the token' : 'a ticket'}`,
      );
      return {
        id,
        cookie: cookie(id, until_s, secret),
        key: sessionKey(id, secret).toString('base64url'),
        expires_at: until_s * 1000,
      };
    },
    find(request) {
      const id = idOf(request);
      return id === null ? null : (live.get(id)?.end.signal ?? null);
    },
    async close(request) {
      const id = idOf(request);
      if (id === null) return;
      end(id, 'The session has signed out.');
      arm();
      await write();
    },
    async closeAll() {
      for (const id of [...live.keys()]) end(id, 'The token was changed.');
      for (const ticket of [...tickets.keys()]) drop(ticket);
      arm();
      await write();
    },
    prove({ by, nonce, port }) {
      const secret = token();
      if (secret === null) return null;
      const key = () => {
        if (by === 'token') return hmac(secret, 'svc console token');
        if (by.startsWith('session.')) return sessionKey(by.slice('session.'.length), secret);
        const ticket = [...tickets.keys()].find(
          (known) => `ticket.${hash('sha256', known, 'base64url')}` === by,
        );
        return ticket === undefined ? null : hmac(ticket, 'svc console ticket');
      };
      const found = key();
      return found === null ? null : hmac(found, `${port}\n${nonce}`).toString('base64url');
    },
  };
}

/** Browsers keep cookies by host, not by port, so the name has the port. */
export function cookieName({ socket }: IncomingMessage): string {
  return `svc_session_${socket.localPort}`;
}

function cookieValues(request: IncomingMessage): string[] {
  const name = `${cookieName(request)}=`;
  const pairs = (request.headers.cookie ?? '').split(';').map((pair) => pair.trim());
  return pairs.filter((pair) => pair.startsWith(name)).map((pair) => pair.slice(name.length));
}

function cookie(id: string, until_s: number, token: string): string {
  const proof = hmac(token, `svc console cookie ${id} ${until_s}`).toString('base64url');
  return `${id}.${until_s}.${proof}`;
}

function sessionKey(id: string, token: string): Buffer {
  return hmac(token, `svc console session ${id}`);
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

/** Both sides are hashed, so that the time shows neither length nor content. */
export function isSame(one: string, other: string): boolean {
  return timingSafeEqual(digestOf(one), digestOf(other));
}

export function digestOf(secret: string): Buffer {
  return hash('sha256', secret, 'buffer');
}

const COOKIE = /^([\w-]{22})\.(\d{1,12})\.[\w-]{43}$/;
