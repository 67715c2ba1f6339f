import type { IncomingMessage, ServerResponse } from 'node:http';
import { fromBody, type SvcError } from '../../errors.ts';

/**
 * How a streamed answer ended, for clients that ask with `TE: trailers`. It is a trailer of HTTP,
 * so one rule serves every API, whatever form its last event has.
 */

export const STREAM_END = 'X-Svc-End';

/** Announces the trailer. Call it before the headers are sent. */
export function announceEnd({ req, res }: Exchange): Record<string, string> {
  return isWanted(req) && res.getHeader('Content-Length') === undefined
    ? { Trailer: STREAM_END }
    : {};
}

/** Null: the answer is complete. */
export function sendEnd({ req, res }: Exchange, error: SvcError | null): void {
  if (!isWanted(req) || res.destroyed) return;
  res.addTrailers({ [STREAM_END]: ascii(error === null ? {} : shortOf(error)) });
}

/**
 * How an answer ended, once it has been read. `unknown`: it has no such end, as from an older
 * daemon. `cut`: its end was announced but did not come.
 */
export function readEnd({
  headers,
  trailers,
}: IncomingMessage): SvcError | null | 'unknown' | 'cut' {
  if (headers.trailer?.toLowerCase() !== STREAM_END.toLowerCase()) return 'unknown';
  const end = trailers[STREAM_END.toLowerCase()];
  if (end === undefined) return 'cut';
  const error = JSON.parse(end) as Parameters<typeof fromBody>[0];
  return error.code === undefined ? null : fromBody(error);
}

interface Exchange {
  req: IncomingMessage;
  res: ServerResponse;
}

function isWanted({ headers }: IncomingMessage): boolean {
  return /\btrailers\b/i.test(String(headers.te ?? ''));
}

function shortOf({ code, message, hint, param }: SvcError): object {
  return { code, message: message.slice(0, TEXT_MAX), hint: hint.slice(0, TEXT_MAX), param };
}
/** Clients bound the size of headers. The whole message is in the last event. */
const TEXT_MAX = 1000;

/** Headers have no other characters. */
function ascii(value: object): string {
  return JSON.stringify(value).replace(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
