import { type ClientReadableStream, credentials, loadPackageDefinition, makeGenericClientConstructor, type ServiceError } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { service } from 'grpc-health-check';
import { createGrpc, type Grpc } from '../../src/grpc/server.ts';
import { defaultLimits, type Limits } from '../../src/limits.ts';
import { type FakeRuntime, fakeRuntime } from '../helpers/fake-runtime.ts';
import { silent } from '../helpers/kernel.ts';

export interface Served extends Grpc {
  runtime: FakeRuntime;
  address: string;
}

export async function serve(options: { limits?: Partial<Limits>; host?: string; port?: number } = {}): Promise<Served> {
  const runtime = fakeRuntime();
  runtime.bring('ready');
  const grpc = createGrpc({ runtime, limits: { ...defaultLimits, ...options.limits }, log: silent });
  const address = await grpc.listen(options.host ?? '127.0.0.1', options.port ?? 0);
  return { ...grpc, runtime, address };
}

type Reply<T> = (error: ServiceError | null, answer: T) => void;

interface Stub {
  check(request: { service: string }, reply: Reply<{ status: string }>): void;
  list(request: object, reply: Reply<{ statuses: Record<string, { status: string }> }>): void;
  watch(request: { service: string }): ClientReadableStream<{ status: string }>;
  close(): void;
}

export interface HealthClient {
  /** The status, or the number of the error. */
  check(service: string): Promise<string | number>;
  list(): Promise<Record<string, string>>;
  watch(service: string): Watched;
  close(): void;
}

export interface Watched {
  seen: string[];
  ended: Promise<number>;
  cancel(): void;
}

/** A stock client of the standard health service. */
export function healthClient(address: string): HealthClient {
  const Client = makeGenericClientConstructor(service as never, 'Health');
  const stub = new Client(address, credentials.createInsecure()) as unknown as Stub;
  return {
    check: (name) => new Promise((resolve) => stub.check({ service: name }, (error, answer) => resolve(error?.code ?? answer.status))),
    list: () =>
      new Promise((resolve, reject) =>
        stub.list({}, (error, answer) =>
          error === null ? resolve(Object.fromEntries(Object.entries(answer.statuses).map(([name, { status }]) => [name, status]))) : reject(error),
        ),
      ),
    watch(name) {
      const call = stub.watch({ service: name });
      const seen: string[] = [];
      call.on('data', ({ status }) => seen.push(status));
      call.on('error', () => {});
      return { seen, ended: new Promise((resolve) => call.once('status', ({ code }) => resolve(code))), cancel: () => call.cancel() };
    },
    close: () => stub.close(),
  };
}

/** The services that reflection names, asked as a command line tool asks. */
export async function reflect(address: string, version: 'v1' | 'v1alpha', proto: string): Promise<string[]> {
  // biome-ignore lint/suspicious/noExplicitAny: a package that is loaded from its file has no type
  const loaded = loadPackageDefinition(loadSync(proto)) as any;
  const client = new loaded.grpc.reflection[version].ServerReflection(address, credentials.createInsecure());
  const call = client.ServerReflectionInfo();
  const names = await new Promise<string[]>((resolve, reject) => {
    call.on('data', (answer: { listServicesResponse: { service: { name: string }[] } }) =>
      resolve(answer.listServicesResponse.service.map(({ name }) => name)),
    );
    call.on('error', reject);
    call.write({ listServices: '' });
  });
  call.end();
  client.close();
  return names;
}
