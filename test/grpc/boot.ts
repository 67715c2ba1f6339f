import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import {
  type ChannelCredentials,
  type ClientReadableStream,
  credentials,
  loadPackageDefinition,
  makeGenericClientConstructor,
  type ServiceError,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { service } from 'grpc-health-check';
import type { Clock } from '../../src/async/clock.ts';
import { createGrpc, type Grpc } from '../../src/grpc/server.ts';
import { defaultLimits, type Limits } from '../../src/limits.ts';
import { createTokenAccess } from '../../src/transport/auth/token-access.ts';
import type { ServedCertificate } from '../../src/transport/served-certificate.ts';
import { UnsentBytes } from '../../src/transport/stream/unsent-bytes.ts';
import { type FakeRuntime, fakeRuntime } from '../helpers/fake-runtime.ts';
import { silent } from '../helpers/kernel.ts';

export const TOKEN = 'the-right-token-0123456789';

export interface Served extends Grpc {
  runtime: FakeRuntime;
  address: string;
}

export async function serve(
  options: {
    limits?: Partial<Limits>;
    host?: string;
    port?: number;
    certificate?: ServedCertificate;
    clock?: Clock;
    onRefused?: (code: string) => void;
  } = {},
): Promise<Served> {
  const runtime = fakeRuntime();
  runtime.bring('ready');
  const limits = { ...defaultLimits, ...options.limits };
  const grpc = createGrpc({
    runtime,
    limits,
    log: silent,
    unsent: new UnsentBytes(limits, silent),
    access: createTokenAccess({ settings: { auth: true }, token: () => TOKEN }),
    certificate: options.certificate ?? null,
    ...(options.clock === undefined ? {} : { clock: options.clock }),
    ...(options.onRefused === undefined ? {} : { onRefused: options.onRefused }),
  });
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
export function healthClient(
  address: string,
  by: ChannelCredentials = credentials.createInsecure(),
): HealthClient {
  const Client = makeGenericClientConstructor(service as never, 'Health');
  const stub = new Client(address, by) as unknown as Stub;
  return {
    check: (name) =>
      new Promise((resolve) =>
        stub.check({ service: name }, (error, answer) => resolve(error?.code ?? answer.status)),
      ),
    list: () =>
      new Promise((resolve, reject) =>
        stub.list({}, (error, answer) =>
          error === null
            ? resolve(
                Object.fromEntries(
                  Object.entries(answer.statuses).map(([name, { status }]) => [name, status]),
                ),
              )
            : reject(error),
        ),
      ),
    watch(name) {
      const call = stub.watch({ service: name });
      const seen: string[] = [];
      call.on('data', ({ status }) => seen.push(status));
      call.on('error', () => {});
      return {
        seen,
        ended: new Promise((resolve) => call.once('status', ({ code }) => resolve(code))),
        cancel: () => call.cancel(),
      };
    },
    close: () => stub.close(),
  };
}

type Version = 'v1' | 'v1alpha';
type Question = { listServices: string } | { fileContainingSymbol: string };
interface Answer {
  listServicesResponse: { service: { name: string }[] } | null;
  fileDescriptorResponse: { fileDescriptorProto: Buffer[] } | null;
}

const PROTO = join(
  dirname(createRequire(import.meta.url).resolve('@grpc/reflection')),
  '..',
  'proto',
  'grpc',
  'reflection',
);

/** One request to reflection, in the form of a command line tool. */
async function askReflection(
  address: string,
  version: Version,
  question: Question,
): Promise<Answer> {
  // biome-ignore lint/suspicious/noExplicitAny: a package that is loaded from its file has no type
  const loaded = loadPackageDefinition(loadSync(join(PROTO, version, 'reflection.proto'))) as any;
  const client = new loaded.grpc.reflection[version].ServerReflection(
    address,
    credentials.createInsecure(),
  );
  const call = client.ServerReflectionInfo();
  const answer = await new Promise<Answer>((resolve, reject) => {
    call.on('data', resolve);
    call.on('error', reject);
    call.write(question);
  });
  call.end();
  client.close();
  return answer;
}

/** The services that reflection lists. */
export async function reflect(address: string, version: Version): Promise<string[]> {
  const { listServicesResponse } = await askReflection(address, version, { listServices: '' });
  return (listServicesResponse?.service ?? []).map(({ name }) => name);
}

/** The descriptors of the file of a symbol, and of the files that it needs. */
export async function describeSymbol(
  address: string,
  version: Version,
  symbol: string,
): Promise<Buffer[]> {
  const { fileDescriptorResponse } = await askReflection(address, version, {
    fileContainingSymbol: symbol,
  });
  return fileDescriptorResponse?.fileDescriptorProto ?? [];
}
