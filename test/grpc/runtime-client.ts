import {
  type ClientReadableStream,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceError,
  type StatusObject,
} from '@grpc/grpc-js';
import {
  loadFileDescriptorSetFromObject,
  loadSync,
  type PackageDefinition,
} from '@grpc/proto-loader';
import protobuf from 'protobufjs';
import descriptor from 'protobufjs/ext/descriptor/index.js';
import { PROTO } from '../proto.ts';
import { TOKEN } from './boot.ts';

/** A stock client of `svc.runtime.v1.Runtime`. */

/** The usual options of a client. */
const OPTIONS = { keepCase: true, longs: Number, oneofs: true } as const;
const DEFINITION = loadSync(PROTO, OPTIONS);

// biome-ignore lint/suspicious/noExplicitAny: the test says which type an answer has
export type Message = any;

export interface Update extends Record<string, unknown> {
  seq?: number;
  update: string;
}

export interface Stream {
  updates: Message[];
  /** The texts of all pieces of the answer. */
  text(): string;
  runId: Promise<string>;
  ended: Promise<StatusObject>;
  call: ClientReadableStream<Message>;
}

export interface RuntimeClient {
  ask(method: string, request?: object, options?: CallOptions): Promise<Message>;
  /** The status of a call that fails. */
  refusal(method: string, request?: object, options?: CallOptions): Promise<ServiceError>;
  stream(method: string, request?: object, options?: CallOptions): Stream;
  close(): void;
}

interface CallOptions {
  /** Null: none. */
  token?: string | null;
  deadline?: number;
  /** Further metadata. */
  more?: Metadata;
}

export function runtimeClient(
  address: string,
  {
    definition = DEFINITION,
    token: own = TOKEN,
  }: { definition?: PackageDefinition; token?: string } = {},
): RuntimeClient {
  // biome-ignore lint/suspicious/noExplicitAny: the test says which type an answer has
  const { svc } = loadPackageDefinition(definition) as any;
  const client = new svc.runtime.v1.Runtime(address, credentials.createInsecure());
  const metadata = ({ token = own, more: further }: CallOptions) => {
    const sent = further ?? new Metadata();
    if (token !== null) sent.set('authorization', `Bearer ${token}`);
    return sent;
  };
  const more = ({ deadline }: CallOptions) => (deadline === undefined ? {} : { deadline });
  const ask: RuntimeClient['ask'] = (method, request = {}, options = {}) =>
    new Promise((resolve, reject) =>
      client[method](
        request,
        metadata(options),
        more(options),
        (error: ServiceError | null, answer: Message) =>
          error === null ? resolve(answer) : reject(error),
      ),
    );
  return {
    ask,
    refusal: (method, request, options) =>
      ask(method, request, options).then(
        () => Promise.reject(new Error(`${method} was accepted`)),
        (error) => error,
      ),
    stream(method, request = {}, options = {}) {
      const call: ClientReadableStream<Message> = client[method](
        request,
        metadata(options),
        more(options),
      );
      const updates: Message[] = [];
      call.on('data', (update) => updates.push(update));
      call.on('error', () => {});
      return {
        call,
        updates,
        text: () => updates.map(({ output }) => output?.text ?? '').join(''),
        runId: new Promise((resolve) =>
          call.once('metadata', (head: Metadata) => resolve(String(head.get('svc-run-id')[0]))),
        ),
        ended: new Promise((resolve) => call.once('status', resolve)),
      };
    },
    close: () => client.close(),
  };
}

/** What a library for errors reads from the details of a status. */
export function detailsOf({ metadata }: Pick<StatusObject, 'metadata'>): Record<string, Message> {
  const { root } = protobuf.parse(
    `syntax = "proto3"; package google.rpc;
    message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
    message Any { string type_url = 1; bytes value = 2; }
    message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }
    message RetryInfo { Duration retry_delay = 1; }
    message Duration { int64 seconds = 1; int32 nanos = 2; }`,
    { keepCase: true },
  );
  const read = (name: string, bytes: Uint8Array): Message => {
    const type = root.lookupType(name);
    return type.toObject(type.decode(bytes), { longs: Number });
  };
  const [bytes] = metadata.get('grpc-status-details-bin');
  const { details } = read('google.rpc.Status', bytes as Buffer);
  return Object.fromEntries(
    details.map(({ type_url, value }: { type_url: string; value: Buffer }) => {
      const name = type_url.replace('type.googleapis.com/google.rpc.', '');
      return [name, read(`google.rpc.${name}`, value)];
    }),
  );
}

/** A definition from the descriptors that reflection sends. */
export function fromDescriptors(files: readonly Buffer[]): PackageDefinition {
  const file = files.map((bytes) => descriptor.FileDescriptorProto.decode(bytes));
  return loadFileDescriptorSetFromObject({ file }, OPTIONS);
}
