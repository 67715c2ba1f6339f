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
  return { status: error.http, headers: { ...headers, ...specific(error) }, body };
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
  const { http: status, code, waitMs, details } = error;
  const allow = details?.allow;
  // A browser cannot ask its user for the key of a provider.
  const realm = code === 'provider_unauthorised' ? 'provider' : 'svc';
  return {
    ...(status === 401 ? { 'WWW-Authenticate': `Bearer realm="${realm}"` } : {}),
    ...(status === 405 && Array.isArray(allow) ? { Allow: allow.join(', ') } : {}),
    ...(status === 426 ? { Upgrade: 'websocket' } : {}),
    ...(waitMs === null ? {} : { 'Retry-After': String(Math.max(1, Math.ceil(waitMs / 1000))) }),
    ...(mayBeRepeated(error) ? {} : { 'X-Should-Retry': 'false' }),
  };
}

/**
 * Whether a client may repeat the request by itself. The clients of OpenAI and Anthropic repeat by
 * the status, and wait no longer than a minute. This header forbids it.
 */
function mayBeRepeated({ retryable, settled, retryAfterMs }: SvcError): boolean {
  return retryable && !settled && (retryAfterMs ?? 0) <= CLIENT_WAIT_MS;
}

const CLIENT_WAIT_MS = 60_000;
