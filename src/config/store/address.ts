/**
 * Where the event log is: `sqlite`, or the address of a PostgreSQL database.
 *
 * 1. The password is never in the setting: it is taken out when the configuration is read.
 * 2. A message has the address without its password.
 */

export const SQLITE = 'sqlite';

/** A shared log, for several daemons. */
export function isPostgres(store: string): boolean {
  return store !== SQLITE;
}

export function readStoreAddress(value: unknown): string | undefined {
  if (value === SQLITE) return SQLITE;
  if (typeof value !== 'string' || !URL.canParse(value)) return undefined;
  const url = new URL(value);
  const isKnown = url.protocol === 'postgres:' || url.protocol === 'postgresql:';
  return isKnown && url.hash === '' ? value : undefined;
}

/** The text with a mark in the place of a password. It takes malformed addresses too. */
export function maskPassword(text: string): string {
  return text
    .replace(/(:\/\/[^:/?#]*):.*@/s, '$1:***@')
    .replace(/([?&]password=)[^&#]*/gi, '$1***');
}

/** The address without its password, and the password; null if it has none. */
export function splitPassword(store: string): { address: string; password: string | null } {
  if (!isPostgres(store)) return { address: store, password: null };
  const url = new URL(store);
  const inQuery = url.searchParams.get('password');
  const password = inQuery ?? (url.password === '' ? null : decodeURIComponent(url.password));
  if (password === null) return { address: store, password };
  url.password = '';
  url.searchParams.delete('password');
  return { address: url.href, password };
}

/** The place of the database in messages: without its user and its options. */
export function databaseName(address: string): string {
  const url = new URL(address);
  const host = url.host || url.searchParams.get('host') || 'localhost';
  const port = url.port === '' ? url.searchParams.get('port') : null;
  return `${host}${port === null ? '' : `:${port}`}${url.pathname}`;
}
