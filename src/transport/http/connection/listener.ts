import {
  createServer,
  IncomingMessage,
  type Server,
  type ServerOptions,
  ServerResponse,
} from 'node:http';
import { createServer as createSecureServer, type Server as SecureServer } from 'node:https';
import type { Socket } from 'node:net';
import { SvcError } from '../../../errors.ts';
import { HEADERS_MAX, type Limits } from '../../../limits.ts';
import { rawHttpError } from '../../http-error.ts';
import type { Refusal } from '../../refusals.ts';
import type { ServedCertificate } from '../../served-certificate.ts';
import type { Connections } from './connections.ts';
import { endConnection } from './linger.ts';

/**
 * A server that bounds its connections, headers and waits, and answers unparsable requests with our
 * errors.
 *
 * 1. A connection whose unsent bytes do not move for two heartbeats is closed. Slow readers stay.
 * 2. A client never times out while its response is still being produced.
 * 3. A connection with too many open requests is closed. Its further requests are neither parsed
 *    nor answered.
 * 4. With a certificate each connection begins with a TLS handshake, which ends in time. Before and
 *    after it, the connection counts as one.
 */
export interface Listener {
  server: Server;
  /** Serves a connection that needs no TLS, such as one of the local socket. */
  accept(socket: Socket): void;
}

export function createListener(
  limits: Limits,
  connections: Connections,
  onRefused: (kind: Refusal) => void,
  certificate: ServedCertificate | null,
): Listener {
  const options: ServerOptions = {
    headersTimeout: Math.min(limits.header_ms, limits.request_ms),
    requestTimeout: limits.request_ms,
    keepAliveTimeout: limits.connection_idle_ms,
    connectionsCheckingInterval: Math.min(5000, Math.ceil(limits.header_ms / 4)),
    maxHeaderSize: limits.header_bytes,
    requireHostHeader: false,
    shouldUpgradeCallback: (request) =>
      connections.isFull(request.socket) || request.headers.upgrade?.toLowerCase() === 'websocket',
    ...messages(connections),
  };
  const server =
    certificate === null ? createServer(options) : secure(options, limits, certificate);
  // One more than is taken, so that `access` sees that there were more.
  server.maxHeadersCount = HEADERS_MAX + 1;
  server.maxRequestsPerSocket = limits.connection_requests;
  // Node.js says `Connection: close` in the last answer, and leaves closing to the client.
  server.on('request', (_, res: ServerResponse & { maxRequestsOnConnectionReached?: boolean }) => {
    if (res.maxRequestsOnConnectionReached === true) res.shouldKeepAlive = false;
  });
  server.on('connection', (socket: Socket) => connections.take(socket, certificate !== null));
  server.on('secureConnection', (socket: Socket) => connections.endHandshake(socket));
  server.removeAllListeners('tlsClientError');
  // Node.js would answer a failed handshake in HTTP.
  server.on('tlsClientError', (_, socket: Socket) => {
    onRefused('handshake_failed');
    socket.destroy();
  });
  server.on('upgrade', ({ socket }) => {
    if (!connections.isFull(socket)) return;
    onRefused('open_requests');
    socket.destroy();
  });
  // Two times in a row: after a stall of the process the first one is over although bytes wait on
  // both sides, and they move before the second one begins.
  const moved = new WeakMap<Socket, number>();
  server.setTimeout(limits.heartbeat_ms, (socket) => {
    const { bytesRead, bytesWritten, writableLength } = socket;
    const bytes = bytesRead + bytesWritten - writableLength;
    const isIdle = connections.latest(socket)?.writableFinished === true;
    if (moved.get(socket) === bytes && (writableLength > 0 || isIdle)) return void socket.destroy();
    moved.set(socket, bytes);
    socket.setTimeout(limits.heartbeat_ms);
  });
  server.on('checkContinue', (req, res) => server.emit('request', req, res));
  server.on('clientError', (error: NodeJS.ErrnoException, duplex) => {
    const socket = duplex as Socket;
    if (socket.writableEnded) {
      if (socket.readableEnded || socket.bytesRead > limits.discard_bytes) socket.destroy();
      return;
    }
    const latest = connections.latest(socket);
    const isMidway = latest?.headersSent === true && !latest.writableFinished;
    if (!socket.writable || isMidway || error.code === 'ECONNRESET') return socket.destroySoon();
    const refusal = toRefusal(error, limits);
    onRefused(refusal.code === 'invalid_request' ? 'malformed_request' : (refusal.code as Refusal));
    if (error.code?.startsWith('HPE_') === true)
      return endConnection(socket, rawHttpError(refusal), limits);
    // The parser could find more requests on this connection, after an answer that ends it.
    socket.write(rawHttpError(refusal));
    socket.destroySoon();
  });
  return {
    server,
    accept(socket) {
      if (certificate === null) return void server.emit('connection', socket);
      connections.take(socket);
      server.emit('secureConnection', socket);
    },
  };
}

function secure(
  options: ServerOptions,
  { handshake_ms }: Limits,
  certificate: ServedCertificate,
): SecureServer {
  const server = createSecureServer({
    ...options,
    ...certificate.pair,
    handshakeTimeout: handshake_ms,
    noDelay: true,
  });
  certificate.onChange((pair) => server.setSecureContext(pair));
  return server;
}

/**
 * Picks the handling of each parsed request. When a connection has too many open, the next one
 * becomes an upgrade. After an upgrade the parser leaves the rest of the bytes alone. One read can
 * have thousands of requests.
 */
function messages(connections: Connections) {
  class Request extends IncomingMessage {
    declare private ofUpgrade: boolean;
    get upgrade(): boolean {
      return this.ofUpgrade;
    }
    set upgrade(isUpgrade: boolean) {
      this.ofUpgrade = isUpgrade || connections.isFull(this.socket);
    }
  }
  class Response<R extends IncomingMessage = IncomingMessage> extends ServerResponse<R> {
    constructor(...args: ConstructorParameters<typeof ServerResponse<R>>) {
      super(...args);
      connections.begin(this.req.socket, this);
    }
  }
  return {
    IncomingMessage: Request as typeof IncomingMessage,
    ServerResponse: Response as typeof ServerResponse,
  };
}

function toRefusal(error: NodeJS.ErrnoException, { header_bytes }: Limits): SvcError {
  if (error.code === 'HPE_HEADER_OVERFLOW')
    return new SvcError(
      'headers_too_large',
      `The request has headers of more than ${header_bytes} bytes.`,
    );
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return new SvcError('request_timed_out');
  return new SvcError('invalid_request', 'The request is not valid HTTP/1.1.', { cause: error });
}
