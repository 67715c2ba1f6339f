import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Limits } from '../../limits.ts';

/**
 * Ends of answers that come before the whole request did. A connection that closes while its peer still sends is reset by the
 * system, and the answer can be lost with it. So what still comes is read and thrown away, within bounds.
 */

type DiscardLimits = Pick<Limits, 'discard_bytes' | 'discard_ms'>;

/** Sends the last piece of an answer, and ends the response when the request has come in whole or has used up its bounds. */
export function endAfterRequest(
  req: IncomingMessage,
  res: ServerResponse,
  body: string,
  limits: DiscardLimits,
): void {
  if (isWhole(req) || waitsToSend(req)) {
    res.end(body);
    return;
  }
  res.write(body);
  let left = limits.discard_bytes;
  const timer = setTimeout(() => req.socket.destroy(), limits.discard_ms);
  req.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) req.socket.destroy();
  });
  req.once('close', () => {
    clearTimeout(timer);
    res.end();
  });
}

/** Sends an answer that belongs to no response, and closes the connection when its peer does or has used up its bounds. */
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

/** Whether the client sends its body only once it is asked to. Reading begins with asking. */
function waitsToSend({ headers, readableFlowing }: IncomingMessage): boolean {
  return headers.expect !== undefined && readableFlowing === null;
}
