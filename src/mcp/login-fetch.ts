import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { isLoopback } from '../config/address.ts';
import { SvcError } from '../errors.ts';
import { isPublic, lookupOf } from '../http-client/public-address.ts';
import type { Limits } from '../limits.ts';
import { oneLine } from '../logs/plain.ts';
import { boundedFetch, type Fetch } from './bounded-fetch.ts';

export type LoginLimits = Pick<Limits, 'mcp_login_ms' | 'mcp_oauth_ms' | 'mcp_oauth_bytes'>;

export interface LoginFetch {
  fetch: Fetch;
  /** Throws mcp_login_failed for an address that svc does not ask, and opens in no browser. */
  check(url: URL): void;
}

/**
 * `fetch` for the login at a server of tools. That server says who signs people in, so each address
 * is foreign.
 *
 * 1. It is one of https. Only on this machine it may be http.
 * 2. A server of the Internet leads to no address of this machine, or of a network around it.
 * 3. Answers and times are bounded. A redirect stays at its host.
 */
export async function loginFetch(
  server: URL,
  limits: LoginLimits,
  isInner: boolean | Promise<boolean> = isInside(server),
): Promise<LoginFetch> {
  const mayBeInner = await isInner;
  const isAllowed = (address: string) => mayBeInner || isPublic(address);
  const check = (url: URL) => {
    const host = hostOf(url);
    const isHere = isLoopback(host);
    const isSafe = url.protocol === 'https:' || (url.protocol === 'http:' && isHere);
    if (!isSafe || url.username !== '' || url.password !== '')
      throw refusal(url, 'It must be https, or http on this machine, and without a password.');
    if ((isHere || isIP(host) !== 0) && !isAllowed(host)) throw notPublic(url.origin);
  };
  // Loaded here: the daemon needs it for no other server.
  const { Agent, fetch } = await import('undici');
  const connect = { lookup: lookupOf(isAllowed, notPublic) };
  const dispatcher = new Agent({ connect, pipelining: 0 });
  const send: Fetch = async (url, init = {}) => {
    check(new URL(url));
    const signals = [AbortSignal.timeout(limits.mcp_oauth_ms), init.signal ?? []].flat();
    const signal = AbortSignal.any(signals);
    const asked = fetch(url, { ...(init as object), signal, dispatcher });
    return (await asked.catch(throwCause)) as unknown as Response;
  };
  const { mcp_oauth_bytes: bytes } = limits;
  const bounds = { mcp_message_bytes: bytes, mcp_stream_bytes: bytes };
  return { fetch: boundedFetch(bounds, () => {}, send), check };
}

/** A name was refused, or could not be reached. */
function throwCause(error: Error): never {
  throw error.cause instanceof SvcError ? error.cause : error;
}

/** Whether the server is of this machine or its network. Then its logins may be there too. */
async function isInside(server: URL): Promise<boolean> {
  const found = await lookup(hostOf(server), { all: true }).catch(() => []);
  return found.some(({ address }) => !isPublic(address));
}

function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '');
}

function notPublic(place: string): SvcError {
  return refusal(place, 'It is not public, and the server of tools is.');
}

function refusal(place: URL | string, why: string): SvcError {
  const shown = typeof place === 'string' ? place : `${place.protocol}//${place.host}`;
  const message = `The login leads to ${oneLine(shown).slice(0, SHOWN_MAX)}. ${why}`;
  return new SvcError('mcp_login_failed', message);
}
const SHOWN_MAX = 200;
