import { constants, type Http2Server } from 'node:http2';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { Server, ServerCredentials, type ServiceDefinition } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import { service as healthService, protoPath } from 'grpc-health-check';
import protobuf from 'protobufjs';
import { tooManyValues } from '../contract/check.ts';
import { packageRoot } from '../home/paths.ts';
import type { Limits } from '../limits.ts';
import type { HomeRuntime } from '../operations/port.ts';
import type { Log } from '../ports/log.ts';
import type { TokenAccess } from '../transport/auth/token-access.ts';
import type { UnsentBytes } from '../transport/stream/unsent-bytes.ts';
import { createAdmissions, Refused } from './admit.ts';
import type { GrpcConnections } from './connections.ts';
import { strictDescriptors } from './descriptors.ts';
import { createHealth } from './health.ts';
import { createRuntimeCalls, methodScopes } from './runtime.ts';

/**
 * The services over gRPC: the runtime, health, and reflection for tools. An import of this file
 * loads the library.
 */
export interface GrpcService {
  serve(connection: Socket): void;
  /** Ends streams with a last message, lets calls finish, and takes no new ones. */
  drain(): void;
  /** Frees the remaining resources. */
  close(): void;
}

export interface ServiceOptions {
  runtime: HomeRuntime;
  limits: Limits;
  log: Log;
  unsent: UnsentBytes;
  access: TokenAccess;
  connections: GrpcConnections;
  /** Hears the code of each refusal of a call. */
  onRefused?(code: string): void;
}

const PROTO = join(packageRoot(), 'docs', 'runtime.proto');
const SERVICE = 'svc.runtime.v1.Runtime';
// Every service of a process shares these. They are expensive and never change.
const DEFINITION = loadSync(PROTO, { keepCase: true, longs: Number });
const REQUEST_TYPES = requestTypes(PROTO, SERVICE);
const REFLECTION = new ReflectionService(
  strictDescriptors({ ...loadSync(protoPath, { keepCase: true }), ...DEFINITION }),
);
/** Calls in progress on one connection. */
const STREAMS_MAX = 100;

export function createService(options: ServiceOptions): GrpcService {
  const { runtime, limits, connections } = options;
  const health = createHealth(runtime);
  const closing = new AbortController();
  const admissions = createAdmissions({ ...options, service: SERVICE, scopes: methodScopes });
  const server = new Server({
    'grpc.enable_channelz': 0,
    'grpc.keepalive_time_ms': limits.heartbeat_ms,
    'grpc.keepalive_timeout_ms': limits.heartbeat_ms,
    'grpc.max_receive_message_length': limits.body_bytes,
    'grpc.max_concurrent_streams': STREAMS_MAX,
    interceptors: [admissions.intercept],
  });
  server.addService(healthService, health.service);
  server.addService(
    boundRequests(DEFINITION[SERVICE] as ServiceDefinition, limits.request_values),
    createRuntimeCalls({
      ...options,
      runtimeOf: (metadata) => runtime.as(admissions.holderOf(metadata)),
      cut: (peer) => connections.cut(peer),
      closing: closing.signal,
    }),
  );
  REFLECTION.addToServer(server);
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  guardCalls(server, options);
  return {
    serve: (connection) => injector.injectConnection(connection),
    drain() {
      closing.abort();
      health.close();
      server.tryShutdown(() => {});
    },
    close: () => server.forceShutdown(),
  };
}

/**
 * Looks at each call before the library does. This is where the library keeps its listeners.
 *
 * 1. A connection that begins too many calls without a token is closed. Its further bytes are not
 *    parsed.
 * 2. Node.js keeps only the first Authorization header of a call. With different ones the call gets
 *    none, so it is refused as one without a token.
 */
function guardCalls(server: Server, { connections, onRefused = () => {} }: ServiceOptions): void {
  const { http2Servers } = server as unknown as { http2Servers: Map<Http2Server, unknown> };
  for (const http2 of http2Servers.keys()) {
    const listeners = http2.listeners('stream');
    http2.removeAllListeners('stream');
    http2.on('stream', (stream, headers, flags, raw: string[]) => {
      const { session } = stream;
      const peer = `${session?.socket.remoteAddress}:${session?.socket.remotePort}`;
      if (!connections.begin(peer)) {
        onRefused('connection_calls');
        session?.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM);
        return session?.destroy();
      }
      const sent = raw.filter((_, index) => index % 2 === 1 && raw[index - 1] === 'authorization');
      if (sent.some((each) => each !== sent[0])) headers.authorization = '';
      for (const listener of listeners) listener.call(http2, stream, headers, flags, raw);
    });
  }
}

/** The service, which decodes no request with more fields. */
function boundRequests(service: ServiceDefinition, most: number): ServiceDefinition {
  const methods = Object.entries(service).map(([name, method]) => {
    const type = REQUEST_TYPES[name];
    const requestDeserialize = (bytes: Buffer) =>
      type !== undefined && hasMoreFields(bytes, type, most)
        ? new Refused(tooManyValues(most))
        : method.requestDeserialize(bytes);
    return [name, { ...method, requestDeserialize }];
  });
  return Object.fromEntries(methods);
}

/** The types of the requests of a service, by method. */
function requestTypes(proto: string, service: string): Record<string, protobuf.Type> {
  const root = protobuf.loadSync(proto).resolveAll();
  return Object.fromEntries(
    root
      .lookupService(service)
      .methodsArray.map(({ name, resolvedRequestType: type }) => [name, type as protobuf.Type]),
  );
}

/**
 * Counts the fields without decoding the message. Decoded, a field of two bytes is an object of
 * some hundred. False also for a malformed message, which the decoder refuses.
 */
function hasMoreFields(bytes: Uint8Array, type: protobuf.Type, most: number): boolean {
  const reader = protobuf.Reader.create(bytes);
  let fields = 0;
  /** True once there are too many. */
  const count = ({ fieldsById }: protobuf.Type, end: number): boolean => {
    while (reader.pos < end) {
      const tag = reader.uint32();
      fields += 1;
      if (fields > most) return true;
      const inner = fieldsById[tag >>> 3]?.resolvedType;
      if ((tag & 7) !== LENGTH_DELIMITED || !(inner instanceof protobuf.Type)) {
        reader.skipType(tag & 7);
        continue;
      }
      const length = reader.uint32();
      if (count(inner, Math.min(end, reader.pos + length))) return true;
    }
    return false;
  };
  try {
    return count(type, bytes.length);
  } catch {
    return false;
  }
}

const LENGTH_DELIMITED = 2;
