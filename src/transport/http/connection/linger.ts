import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Limits } from '../../../limits.ts';

/**
 * Ends answers that precede the end of their request. The system resets a connection that closes
 * while its peer still sends, and the answer can be lost. So the rest of the request is read and
 * dropped, within bounds.
 */

type DiscardLimits = Pick<Limits, 'discard_bytes' | 'discard_ms'>;

/**
 * Sends the last piece of an answer. The response ends with the request, or when the bounds are
 * used up.
 */
export function endAfterRequest(
  req: IncomingMessage,
  res: ServerResponse,
  body: string,
  limits: DiscardLimits,
): void {
  if (isWhole(req) || isWaitingToSend(req)) {
    res.end(body);
    return;
  }
  res.write(body);
  let bytesLeft = limits.discard_bytes;
  const timer = setTimeout(() => req.socket.destroy(), limits.discard_ms);
  req.on('data', (chunk: Buffer) => {
    bytesLeft -= chunk.length;
    if (bytesLeft < 0) req.socket.destroy();
  });
  req.once('close', () => {
    clearTimeout(timer);
    res.end();
  });
}

/**
 * Sends an answer without a response. The connection closes with its peer, or when the bounds are
 * used up.
 */
export function endConnection(socket: Socket, answer: string, { discard_ms }: DiscardLimits): void {
  const timer = setTimeout(() => socket.destroy(), discard_ms);
  socket.once('close', () => clearTimeout(timer));
  socket.end(answer);
}

function isWhole({ complete, headers }: IncomingMessage): boolean {
  return (
    complete ||
    (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined)
  );
}

/** True if the client waits for 100 Continue before its body. Reading sends it. */
function isWaitingToSend({ headers, readableFlowing }: IncomingMessage): boolean {
  return headers.expect !== undefined && readableFlowing === null;
}
