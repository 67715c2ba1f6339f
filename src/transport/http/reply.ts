import type { IncomingMessage, ServerResponse } from 'node:http';
import type { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import type { Log } from '../../ports/log.ts';
import { type Envelope, httpError } from '../http-error.ts';
import { endAfterRequest } from './connection/linger.ts';

/** Sends JSON. `type` names a special kind of JSON. */
export function sendJson(
  res: ServerResponse,
  status: number,
  value: unknown,
  type = 'application/json',
): void {
  sendBytes(res, status, Buffer.from(`${JSON.stringify(value)}\n`), type);
}

export function jsonHeaders(type = 'application/json') {
  return { 'Content-Type': type, 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' };
}

/** Sends bytes that are JSON already. */
export function sendBytes(
  res: ServerResponse,
  status: number,
  body: Buffer,
  type = 'application/json',
): void {
  const headers = { ...jsonHeaders(type), 'Content-Length': body.length };
  res.writeHead(status, status === 503 ? { ...headers, 'Retry-After': '1' } : headers);
  res.end(body);
}

/**
 * Sends an error from the table of errors, in the envelope of the route. An unknown error goes to
 * the log. An answer that has begun cannot become an error: it is cut off, and the client notices
 * the missing end.
 */
export function sendError(
  req: IncomingMessage,
  res: ServerResponse,
  error: SvcError,
  { log, limits, envelope }: { log: Log; limits: Limits; envelope?: Envelope | undefined },
): void {
  if (error.code === 'internal')
    log.error(
      {
        err: error.cause ?? error,
        method: req.method,
        path: pathOf(req),
        request_id: res.getHeader('X-Request-Id'),
      },
      'a request failed',
    );
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  const { status, headers, body } = httpError(error, envelope);
  if (error.code === 'request_timed_out') res.shouldKeepAlive = false;
  res.writeHead(status, headers);
  if (error.code === 'request_timed_out') res.end(body);
  else endAfterRequest(req, res, body, limits);
}

/** Without the query, which may have private values. */
export function pathOf(req: IncomingMessage): string {
  return (req.url ?? '').split('?')[0] ?? '';
}
