import { createServer, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { SvcError } from '../errors.ts';
import { rawHttpError } from '../http-error.ts';
import type { Limits } from '../limits.ts';

/**
 * A server that bounds its connections, headers and waits, and answers what cannot be parsed with an error of ours.
 *
 * 1. A peer that takes nothing of what stands ready for it for two heartbeats is let go; one that takes it slowly is not.
 * 2. Who waits for an answer that is still being made is left to wait.
 */
export function createListener(limits: Limits): Server {
  const server = createServer({
    headersTimeout: Math.min(limits.header_ms, limits.request_ms),
    requestTimeout: limits.request_ms,
    connectionsCheckingInterval: Math.min(5000, Math.ceil(limits.header_ms / 4)),
    maxHeaderSize: limits.header_bytes,
    requireHostHeader: false,
    shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === 'websocket',
  });
  server.maxConnections = limits.connections;
  const answers = new WeakMap<Duplex, ServerResponse>();
  server.on('request', (req, res) => answers.set(req.socket, res));
  server.setTimeout(2 * limits.heartbeat_ms, (socket) => {
    const isIdle = answers.get(socket)?.writableFinished === true;
    if (socket.writableLength > 0 || isIdle) socket.destroy();
  });
  server.on('checkContinue', (req, res) => server.emit('request', req, res));
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const begun = answers.get(socket);
    const midway = begun?.headersSent === true && !begun.writableFinished;
    if (socket.writable && !midway && error.code !== 'ECONNRESET') socket.write(rawHttpError(refusal(error)));
    (socket as Socket).destroySoon();
  });
  return server;
}

function refusal(error: NodeJS.ErrnoException): SvcError {
  if (error.code === 'HPE_HEADER_OVERFLOW') return new SvcError('headers_too_large');
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return new SvcError('request_timed_out');
  return new SvcError('invalid_request', 'The request is not valid HTTP/1.1.', { cause: error });
}
