import type { IncomingMessage, ServerResponse } from 'node:http';
import type { SvcError } from '../../errors.ts';
import type { Log } from '../../kernel/port.ts';
import type { Limits } from '../../limits.ts';
import { httpError } from '../http-error.ts';
import { endAfterRequest } from './linger.ts';

/** Answers with JSON; `type` where it is a kind of JSON with a name of its own. */
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

/** Answers with JSON that is made already. */
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
 * Answers with the error envelope, made from the table of errors. What was thrown and is not ours goes to the log. An answer
 * that has begun cannot become an error any more: it is cut off, which the client can tell from its end.
 */
export function sendError(
  req: IncomingMessage,
  res: ServerResponse,
  error: SvcError,
  { log, limits }: { log: Log; limits: Limits },
): void {
  if (error.code === 'internal')
    log.error(
      { err: error.cause ?? error, method: req.method, path: pathOf(req) },
      'a request failed',
    );
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  const { status, headers, body } = httpError(error);
  if (error.code === 'request_timed_out') res.shouldKeepAlive = false;
  res.writeHead(status, headers);
  if (error.code === 'request_timed_out') res.end(body);
  else endAfterRequest(req, res, body, limits);
}

/** Without the query, which may hold what is not for the log. */
export function pathOf(req: IncomingMessage): string {
  return (req.url ?? '').split('?')[0] ?? '';
}
