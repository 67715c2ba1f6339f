import type {
  ServerUnaryCall,
  ServerWritableStream,
  sendUnaryData,
  UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { status } from '@grpc/grpc-js';
import type { Probe } from '../contract/contract.ts';
import type { Runtime } from '../operations/port.ts';

/**
 * The standard health service (`grpc.health.v1.Health`). It reads the machine's tags on each
 * request, so that no copy of the state can lag. A watcher gets each change, and the end before its
 * connection closes.
 */
export interface GrpcHealth {
  service: UntypedServiceImplementation;
  /** Reports to every watcher that nothing is served any more, and ends its stream. */
  close(): void;
}

type ServingStatus = 'SERVING' | 'NOT_SERVING' | 'SERVICE_UNKNOWN';
type Request = { service: string };
type Response = { status: ServingStatus };

/** The tag behind each service's health. Other names are not served. */
const services: Record<string, keyof Probe> = {
  '': 'ready',
  'svc.livez': 'live',
  'svc.readyz': 'ready',
  'svc.runtime.v1.Runtime': 'ready',
};

export function createHealth(runtime: Runtime): GrpcHealth {
  const closing = new AbortController();
  const watchers = new Set<() => void>();
  const statusOf = (service: string): ServingStatus => {
    const tag = Object.hasOwn(services, service) ? services[service] : undefined;
    if (tag === undefined) return 'SERVICE_UNKNOWN';
    return !closing.signal.aborted && runtime.probe()[tag] ? 'SERVING' : 'NOT_SERVING';
  };
  const tellAll = () => {
    for (const tell of watchers) tell();
  };
  runtime.stateChanges.subscribe(tellAll, closing.signal);
  return {
    service: {
      check({ request }: ServerUnaryCall<Request, Response>, reply: sendUnaryData<Response>) {
        const found = statusOf(request.service);
        if (found === 'SERVICE_UNKNOWN')
          reply({ code: status.NOT_FOUND, details: 'There is no service of this name.' });
        else reply(null, { status: found });
      },
      list(
        _: ServerUnaryCall<object, unknown>,
        reply: sendUnaryData<{ statuses: Record<string, Response> }>,
      ) {
        reply(null, {
          statuses: Object.fromEntries(
            Object.keys(services).map((service) => [service, { status: statusOf(service) }]),
          ),
        });
      },
      watch(call: ServerWritableStream<Request, Response>) {
        let sent: ServingStatus | null = null;
        const tell = () => {
          const found = statusOf(call.request.service);
          if (found !== sent) call.write({ status: found });
          sent = found;
          if (closing.signal.aborted) call.end();
        };
        watchers.add(tell);
        call.on('cancelled', () => watchers.delete(tell));
        tell();
      },
    },
    close() {
      closing.abort();
      tellAll();
      watchers.clear();
    },
  };
}
