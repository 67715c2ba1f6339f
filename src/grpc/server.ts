import { createServer, type Socket } from 'node:net';
import { createServer as createSecureServer, type Server as SecureServer } from 'node:tls';
import type { Clock } from '../async/clock.ts';
import { asSvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Log } from '../ports/log.ts';
import { listen } from '../transport/listen.ts';
import type { ServedCertificate } from '../transport/served-certificate.ts';
import { GrpcConnections } from './connections.ts';
import type { GrpcService, ServiceOptions } from './service.ts';

/**
 * The gRPC listener. It accepts connections itself and passes them to the library.
 *
 * 1. The first connection loads the library. Without gRPC clients, the daemon pays neither its time
 *    nor its memory.
 * 2. The number of connections and their pace are bounded. Clients without the token cannot lock
 *    out a probe, and a closed watcher connects again.
 * 3. A port that cannot be bound gives our error.
 * 4. With a certificate the library gets a connection after its TLS handshake, which ends in time.
 *    So a certificate can change, and the connection counts before it is served.
 */
export interface GrpcOptions extends Omit<ServiceOptions, 'connections'> {
  /** Null: no TLS. */
  certificate?: ServedCertificate | null;
  /** The time of the turns of connections. */
  clock?: Clock;
}

export interface Grpc {
  /** Resolves with the address as `host:port`. Throws port_in_use, address_refused. */
  listen(host: string, port: number): Promise<string>;
  /** Ends streams with a last message, lets calls finish for a moment, and closes the rest. */
  close(): Promise<void>;
}

export function createGrpc(options: GrpcOptions): Grpc {
  const { limits, log, certificate = null } = options;
  const connections = new GrpcConnections(limits, log, options.clock);
  let loading: Promise<GrpcService> | null = null;
  const load = () => {
    loading ??= import('./service.ts').then(({ createService }) =>
      createService({ ...options, connections }),
    );
    return loading;
  };
  const hand = async (socket: Socket) => {
    try {
      const service = await load();
      if (socket.destroyed) return;
      service.serve(socket);
      socket.resume();
    } catch (error) {
      log.error({ err: asSvcError(error) }, 'a gRPC connection could not be served');
      socket.destroy();
    }
  };
  const serve = (socket: Socket) => void hand(socket);
  const handshakes = certificate === null ? null : secure(limits, certificate, log, serve);
  // What a connection sends before its turn stays with the system. Node.js would pass it to the
  // library as one piece, which nothing could end in its middle.
  const listener = createServer({ pauseOnConnect: true }, (socket) => {
    if (loading === null) connections.pauseUntil(load());
    connections.take(socket, () => {
      if (handshakes === null) serve(socket);
      else handshakes.emit('connection', socket);
    });
  });
  return {
    listen: (host, port) => listen(listener, host, port),
    close: async () => {
      const closed = new Promise<void>((resolve) => listener.close(() => resolve()));
      const service = await loading?.catch(() => undefined);
      const cut = setTimeout(() => connections.destroyAll(), limits.close_grace_ms);
      service?.drain();
      await closed;
      clearTimeout(cut);
      service?.close();
    },
  };
}

function secure(
  { handshake_ms }: Limits,
  certificate: ServedCertificate,
  log: Log,
  serve: (socket: Socket) => void,
): SecureServer {
  const options = { ...certificate.pair, handshakeTimeout: handshake_ms, ALPNProtocols: ['h2'] };
  const server = createSecureServer(options, serve);
  certificate.onChange((pair) => server.setSecureContext(pair));
  server.on('tlsClientError', (error, socket) => {
    log.debug({ err: error }, 'a TLS handshake failed');
    socket.destroy();
  });
  return server;
}
