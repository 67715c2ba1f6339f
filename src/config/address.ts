import { SvcError } from '../errors.ts';

/** True for a loopback name or number, with or without brackets. */
export function isLoopback(host: string): boolean {
  const bare = host.toLowerCase().replace(/^\[|\]$/g, '');
  return (
    bare === 'localhost' || bare === '::1' || /^127(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}$/.test(bare)
  );
}

/** Host and port of an address; null if it is malformed. */
export function parseAddress(text: string): { host: string; port: number } | null {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  return match !== null && port <= 65_535 ? { host: match[1] ?? match[2] ?? '', port } : null;
}

interface Listeners {
  auth: boolean;
  http: string;
  grpc: string;
  tls_cert: string | null;
}

/**
 * Refuses an address that other machines reach: without authentication, and for gRPC without TLS.
 * Throws address_refused.
 */
export function refuseOpenBind({ auth, http, grpc, tls_cert }: Listeners): void {
  const refuse = (param: string, address: string, why: string, hint?: string) => {
    throw new SvcError(
      'address_refused',
      `${address} can be reached from other machines, and ${why}.`,
      { param, hint },
    );
  };
  for (const [name, address] of Object.entries({ http, grpc })) {
    if (isLoopback(parseAddress(address)?.host ?? '')) continue;
    if (!auth) refuse(name, address, 'authentication is off');
    if (name === 'grpc' && tls_cert === null) refuse(name, address, NO_TLS, SET_TLS);
  }
}

/** True if other machines reach HTTP, and the network can read what they send. */
export function isClearText({ http, tls_cert }: Pick<Listeners, 'http' | 'tls_cert'>): boolean {
  return tls_cert === null && !isLoopback(parseAddress(http)?.host ?? '');
}

/** The same for the URL on which a daemon listens. */
export function isOpenInClear(url: string): boolean {
  const [, http] = /^http:\/\/([^/]*)/.exec(url) ?? [];
  return http !== undefined && isClearText({ http, tls_cert: null });
}

const NO_TLS = 'gRPC has no TLS: tokens and prompts could be read on the way';
const SET_TLS = 'Set tls_cert and tls_key, or listen on 127.0.0.1.';
