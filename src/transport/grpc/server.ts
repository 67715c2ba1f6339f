import { createServer, type Socket } from 'node:net';
import type { Log } from '../../kernel/port.ts';
import type { Limits } from '../../limits.ts';
import type { Runtime } from '../../runtime/contract.ts';
import { listen } from '../listen.ts';
import type { GrpcService } from './service.ts';

/**
 * The gRPC listener. It accepts connections itself and passes them to the library.
 *
 * 1. The first connection loads the library. Without gRPC clients, the daemon pays neither its time
 *    nor its memory.
 * 2. At most `connections` are open. No client has a token, so a new connection replaces the
 *    oldest. Clients that keep connections open cannot lock out a probe, and a closed watcher
 *    connects again.
 * 3. A port that cannot be bound gives our error.
 */
export interface GrpcOptions {
  runtime: Runtime;
  limits: Limits;
  log: Log;
}

export interface Grpc {
  /** Resolves with the address as `host:port`. Throws port_in_use, address_refused. */
  listen(host: string, port: number): Promise<string>;
  /** Reports the end to watchers, lets calls finish for a moment, and closes the rest. */
  close(): Promise<void>;
}

export function createGrpc({ runtime, limits, log }: GrpcOptions): Grpc {
  let loading: Promise<GrpcService> | null = null;
  const load = () => {
    loading ??= import('./service.ts').then(({ createService }) => createService(runtime, limits));
    return loading;
  };
  /** Oldest first. */
  const sockets = new Set<Socket>();
  const makeRoom = () => {
    const [oldest] = sockets;
    if (oldest === undefined || sockets.size < limits.connections) return;
    log.debug({ connections: sockets.size }, 'the oldest gRPC connection is closed for a new one');
    sockets.delete(oldest);
    oldest.destroy();
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
    makeRoom();
    sockets.add(socket);
    socket.on('error', (error) => log.debug({ err: error }, 'a gRPC connection failed'));
    socket.once('close', () => sockets.delete(socket));
    void hand(socket);
  });
  return {
    listen: (host, port) => listen(listener, host, port),
    close: async () => {
      const closed = new Promise<void>((resolve) => listener.close(() => resolve()));
      const service = await loading?.catch(() => undefined);
      const cut = setTimeout(() => {
        for (const socket of sockets) socket.destroy();
      }, limits.close_grace_ms);
      service?.drain();
      await closed;
      clearTimeout(cut);
      service?.close();
    },
  };
}
