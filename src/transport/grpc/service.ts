import type { Socket } from 'node:net';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import { service as healthService, protoPath } from 'grpc-health-check';
import type { Limits } from '../../limits.ts';
import type { Runtime } from '../../runtime/contract.ts';
import { strictDescriptors } from './descriptors.ts';
import { createHealth } from './health.ts';

/**
 * The services over gRPC: health, and reflection for tools. An import of this file loads the
 * library.
 */
export interface GrpcService {
  serve(connection: Socket): void;
  /** Reports the end to watchers, lets calls finish, and takes no new ones. */
  drain(): void;
  /** Frees what is left. */
  close(): void;
}

/** Names of services and symbols are shorter than this. */
const REQUEST_BYTES_MAX = 64 * 1024;
const STREAMS_MAX = 100;

export function createService(runtime: Runtime, limits: Limits): GrpcService {
  const health = createHealth(runtime);
  const server = new Server({
    'grpc.enable_channelz': 0,
    'grpc.keepalive_time_ms': limits.heartbeat_ms,
    'grpc.keepalive_timeout_ms': limits.heartbeat_ms,
    'grpc.max_receive_message_length': REQUEST_BYTES_MAX,
    'grpc.max_concurrent_streams': STREAMS_MAX,
  });
  server.addService(healthService, health.service);
  new ReflectionService(strictDescriptors(loadSync(protoPath, { keepCase: true }))).addToServer(
    server,
  );
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  return {
    serve: (connection) => injector.injectConnection(connection),
    drain() {
      health.close();
      server.tryShutdown(() => {});
    },
    close: () => server.forceShutdown(),
  };
}
