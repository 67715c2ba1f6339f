import { createServer, type Socket } from 'node:net';
import { listen } from '../listen.ts';
import { GrpcConnections } from './connections.ts';
import type { GrpcService, ServiceOptions } from './service.ts';

/**
 * The gRPC listener. It accepts connections itself and passes them to the library.
 *
 * 1. The first connection loads the library. Without gRPC clients, the daemon pays neither its time
 *    nor its memory.
 * 2. The number of connections is bounded. Clients without the token cannot lock out a probe, and a
 *    closed watcher connects again.
 * 3. A port that cannot be bound gives our error.
 */
export type GrpcOptions = Omit<ServiceOptions, 'connections'>;

export interface Grpc {
  /** Resolves with the address as `host:port`. Throws port_in_use, address_refused. */
  listen(host: string, port: number): Promise<string>;
  /** Ends streams with a last message, lets calls finish for a moment, and closes the rest. */
  close(): Promise<void>;
}

export function createGrpc(options: GrpcOptions): Grpc {
  const { limits, log } = options;
  const connections = new GrpcConnections(limits, log);
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
      if (!socket.destroyed) service.serve(socket);
    } catch (error) {
      log.error({ err: error }, 'a gRPC connection could not be served');
      socket.destroy();
    }
  };
  const listener = createServer((socket) => {
    connections.take(socket);
    void hand(socket);
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
