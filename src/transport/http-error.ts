import { STATUS_CODES } from 'node:http';
import type { SvcError } from '../errors.ts';
import { requestIdOf } from './request-id.ts';

/** An error as an HTTP answer, for a response and for a refused upgrade. */
export interface HttpError {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** The body of an error in one API. */
export type Envelope = (error: SvcError) => object;

/** svc's own, which has the fields of OpenAI and more. */
const ownEnvelope: Envelope = (error) => ({ error: error.body() });

export function httpError(error: SvcError, envelope: Envelope = ownEnvelope): HttpError {
  const body = `${JSON.stringify(envelope(error))}\n`;
  const headers = {
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(body)),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    // Bodies in the form of another API may have no code of svc.
    'X-Svc-Error': error.code,
  };
  return { status: error.spec.http, headers: { ...headers, ...specific(error) }, body };
}

/** The whole answer as text, for a socket without a response. It ends the connection. */
export function rawHttpError(error: SvcError): string {
  const { status, headers, body } = httpError(error);
  const own = { 'X-Request-Id': requestIdOf(), Connection: 'close' };
  const lines = Object.entries({ ...headers, ...own }).map(([name, value]) => `${name}: ${value}`);
  return [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`, ...lines, '', body].join('\r\n');
}

/** Extra headers of some errors. */
function specific(error: SvcError): Record<string, string> {
  const { status, allow, retry_after_ms } = {
    status: error.spec.http,
    allow: error.details?.allow,
    retry_after_ms: error.details?.retry_after_ms,
  };
  if (status === 401) return { 'WWW-Authenticate': 'Bearer realm="svc"' };
  if (status === 405 && Array.isArray(allow)) return { Allow: allow.join(', ') };
  if (status === 426) return { Upgrade: 'websocket' };
  if (typeof retry_after_ms === 'number')
    return { 'Retry-After': String(Math.max(1, Math.ceil(retry_after_ms / 1000))) };
  return status === 429 || status === 503 ? { 'Retry-After': '1' } : {};
}
