import type { lookup as systemLookup } from 'node:dns';
import { lookup as find } from 'node:dns/promises';
import { isIP } from 'node:net';
import { anySignal } from '../async/signals.ts';
import { timeoutSignal } from '../async/timers.ts';
import { isLoopback } from '../config/address.ts';
import { SvcError } from '../errors.ts';
import { isPublic, lookupOf } from '../http-client/public-address.ts';
import { jsonBudgets, type Limits } from '../limits.ts';
import { oneLine } from '../logs/plain.ts';
import { boundedFetch, type Fetch } from './bounded-fetch.ts';

export type LoginLimits = Pick<Limits, 'mcp_login_ms' | 'mcp_oauth_ms' | 'mcp_oauth_bytes'>;

export interface LoginFetch {
  fetch: Fetch;
  /** Throws mcp_login_failed for an address that svc does not ask, and opens in no browser. */
  check(url: URL): void;
}

/**
 * `fetch` for the login at a tool server. That server says who signs people in, so each address is
 * foreign.
 *
 * 1. It must be https. Only on this machine it may be http.
 * 2. A server of the Internet leads to no address of this machine, or of a network around it.
 * 3. Answers and times are bounded. A redirect stays at its host.
 */
export async function loginFetch(
  server: URL,
  limits: LoginLimits,
  isInner: boolean | Promise<boolean> = isInside(server),
  lookup?: typeof systemLookup,
): Promise<LoginFetch> {
  const mayBeInner = await isInner;
  const isAllowed = (address: string) => mayBeInner || isPublic(address);
  const check = (url: URL) => {
    const host = hostOf(url);
    const isHere = isLoopback(host);
    const isSafe = url.protocol === 'https:' || (url.protocol === 'http:' && isHere);
    if (!isSafe || url.username !== '' || url.password !== '') throw refusal(url.protocol + host);
    if ((isHere || isIP(host) !== 0) && !isAllowed(host)) throw refusal(host);
  };
  // Loaded here: the daemon needs it for no other server.
  const { Agent, fetch } = await import('undici');
  const connect = { lookup: lookupOf(isAllowed, refusal, lookup) };
  const dispatcher = new Agent({ connect, pipelining: 0 });
  const send: Fetch = async (url, init = {}) => {
    check(new URL(url));
    const signals = [timeoutSignal(limits.mcp_oauth_ms), init.signal ?? []].flat();
    const signal = anySignal(signals);
    return (await fetch(url, { ...(init as object), signal, dispatcher })) as unknown as Response;
  };
  const budget = { ...jsonBudgets.package, bytes: limits.mcp_oauth_bytes };
  return { fetch: boundedFetch(budget, send), check };
}

/** Whether the server is of this machine or its network. Then its logins may be there too. */
async function isInside(server: URL): Promise<boolean> {
  const found = await find(hostOf(server), { all: true }).catch(() => []);
  return found.some(({ address }) => !isPublic(address));
}

function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '');
}

function refusal(place: string): SvcError {
  const shown = oneLine(place).slice(0, SHOWN_MAX);
  return new SvcError(
    'mcp_login_failed',
    `The login leads to ${shown}, where svc does not go: only to https, or to http on this ` +
      'machine, without a password. A server of the Internet leads to no inner address.',
  );
}
const SHOWN_MAX = 200;
