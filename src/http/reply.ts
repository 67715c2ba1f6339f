import type { IncomingMessage, ServerResponse } from 'node:http';
import { asSvcError } from '../errors.ts';
import { httpError } from '../http-error.ts';
import type { Log } from '../kernel/port.ts';

/** Answers with JSON; `type` where it is a kind of JSON with a name of its own. */
export function sendJson(res: ServerResponse, status: number, value: unknown, type = 'application/json'): void {
  const body = `${JSON.stringify(value)}\n`;
  res.writeHead(status, { 'Content-Type': type, 'Content-Length': Buffer.byteLength(body), 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' });
  res.end(body);
}

/**
 * Answers with the error envelope, made from the table of errors. What was thrown and is not ours goes to the log. An answer
 * that has begun cannot become an error any more: it is cut off, which the client can tell from its end.
 */
export function sendError(req: IncomingMessage, res: ServerResponse, thrown: unknown, log: Log): void {
  const error = asSvcError(thrown);
  if (error.code === 'internal') log.error({ err: error.cause ?? error, method: req.method, path: pathOf(req) }, 'a request failed');
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  const { status, headers, body } = httpError(error);
  res.writeHead(status, headers);
  res.end(body);
}

/** Without the query, which may hold what is not for the log. */
export function pathOf(req: IncomingMessage): string {
  return (req.url ?? '').split('?')[0] ?? '';
}
