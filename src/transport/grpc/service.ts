import type { Socket } from 'node:net';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import { service as healthService, protoPath } from 'grpc-health-check';
import type { Limits } from '../../limits.ts';
import type { Runtime } from '../../runtime/contract.ts';
import { strictDescriptors } from './descriptors.ts';
import { createHealth } from './health.ts';

/** What is served over gRPC: health, and reflection for tools. Importing this file loads the library. */
export interface GrpcService {
  serve(connection: Socket): void;
  /** Tells watchers that nothing is served any more, lets calls that were begun finish, and takes no new ones. */
  drain(): void;
  /** Gives back what is left. */
  close(): void;
}

/** No request of ours is larger: names of services and symbols. */
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
