import type { ServerHttp2Stream } from 'node:http2';
import {
  type Metadata,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
} from '@grpc/grpc-js';
import { asSvcError, SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { type NeededScope, requireScope } from '../runtime/principal/principal.ts';
import type { Holder } from '../transport/auth/holder.ts';
import type { TokenAccess } from '../transport/auth/token-access.ts';
import type { GrpcConnections } from './connections.ts';
import { statusOf } from './status.ts';

/**
 * Admits calls. Health and reflection are public. Every other method needs a token of its scope.
 *
 * 1. A call without the token ends before its message is read. A message to a public service is
 *    small.
 * 2. Work that a token admitted ends with it, after a moment also for a client that does not read.
 * 3. A call whose request does not arrive in time ends. So does one whose request has too much.
 */
export interface Admissions {
  intercept: ServerInterceptor;
  /** Who made the call with this metadata. */
  holderOf(metadata: Metadata): Holder;
}

/** A message that was not decoded. The library would answer an error there as INTERNAL. */
export class Refused {
  readonly error: SvcError;

  constructor(error: SvcError) {
    this.error = error;
  }
}

export interface AdmitOptions {
  access: TokenAccess;
  connections: GrpcConnections;
  limits: Limits;
  /** The service that needs the token, and what each of its methods needs. */
  service: string;
  scopes: Readonly<Record<string, NeededScope>>;
  /** Hears the code of each refusal of a call. */
  onRefused?(code: string): void;
}

export function createAdmissions({
  access,
  connections,
  limits,
  service,
  scopes,
  onRefused = () => {},
}: AdmitOptions): Admissions {
  const callers = new WeakMap<Metadata, Holder>();
  const publicCalls = new PublicCalls(limits);
  const guard = (call: ServerInterceptingCallInterface, needed: NeededScope) => {
    const cleanups: (() => void)[] = [];
    const end = (error: SvcError) => call.sendStatus(statusOf(error));
    const admit = (metadata: Metadata) => {
      const caller = access.admit(metadata.get('authorization').map(String));
      callers.set(metadata, caller);
      requireScope(caller, needed);
      cleanups.push(caller.begin());
      cleanups.push(connections.hold(call.getPeer()));
      const late = setTimeout(
        () =>
          end(
            new SvcError(
              'request_timed_out',
              `The request took longer than ${limits.request_ms} ms.`,
            ),
          ),
        limits.request_ms,
      );
      cleanups.push(() => clearTimeout(late));
      const endRevoked = () => {
        end(asSvcError(caller.ended.reason));
        const cut = setTimeout(() => connections.cut(call.getPeer()), limits.close_grace_ms);
        cleanups.push(() => clearTimeout(cut));
      };
      caller.ended.addEventListener('abort', endRevoked);
      cleanups.push(() => caller.ended.removeEventListener('abort', endRevoked));
      return () => clearTimeout(late);
    };
    return new ServerInterceptingCall(call, {
      start: (next) => {
        let received = () => {};
        next({
          onReceiveMetadata(metadata, proceed) {
            try {
              received = admit(metadata);
            } catch (thrown) {
              const error = asSvcError(thrown);
              onRefused(error.code);
              return end(error);
            }
            proceed(metadata);
          },
          onReceiveMessage: (message, proceed) =>
            message instanceof Refused ? end(message.error) : proceed(message),
          onReceiveHalfClose(proceed) {
            received();
            proceed();
          },
          onCancel: () => {
            for (const each of cleanups.splice(0)) each();
          },
        });
      },
    });
  };
  return {
    intercept: ({ path }, call) => {
      const [, of = '', method = ''] = path.split('/');
      if (of === service) return guard(call, scopes[method] ?? 'admin');
      publicCalls.enter(call);
      boundMessages(call);
      return new ServerInterceptingCall(call);
    },
    holderOf: (metadata) => callers.get(metadata) as Holder,
  };
}

/**
 * Bounds the messages of a public call. The library has one bound for all services. So this sets
 * the bound of one call, where the library keeps it.
 */
function boundMessages(call: ServerInterceptingCallInterface): void {
  const { decoder } = call as unknown as { decoder: { maxReadMessageLength: number } };
  decoder.maxReadMessageLength = PUBLIC_BYTES_MAX;
  Object.assign(call, { maxReceiveMessageSize: PUBLIC_BYTES_MAX });
}

/** Names of services and symbols are shorter than this. */
const PUBLIC_BYTES_MAX = 64 * 1024;

/**
 * The calls without a token: health and reflection. It owns which of them stay when there are too
 * many, over all connections.
 *
 * 1. A new call always gets in. The oldest one ends then, and its client can call again.
 * 2. A call counts until its stream is closed, also before its message has arrived.
 */
class PublicCalls {
  private readonly limits: Pick<Limits, 'public_calls' | 'close_grace_ms'>;
  /** Oldest first. */
  private readonly open = new Set<ServerHttp2Stream>();
  private readonly ends = new WeakMap<ServerHttp2Stream, () => void>();

  constructor(limits: Pick<Limits, 'public_calls' | 'close_grace_ms'>) {
    this.limits = limits;
  }

  enter(call: ServerInterceptingCallInterface): void {
    // The library shows the end of a call to its handler only, which may not run yet.
    const { stream } = call as unknown as { stream: ServerHttp2Stream };
    const { public_calls, close_grace_ms } = this.limits;
    this.open.add(stream);
    stream.once('close', () => this.open.delete(stream));
    this.ends.set(stream, () => {
      // Trailers after an answer are sent later than the status of a call without one.
      const grace_ms = stream.headersSent ? close_grace_ms : 0;
      call.sendStatus(statusOf(new SvcError('busy', 'Newer calls replaced this one.')));
      // The client may never end its side of the stream.
      const cut = setTimeout(() => stream.close(), grace_ms);
      stream.once('close', () => clearTimeout(cut));
    });
    const [oldest] = this.open;
    if (this.open.size <= public_calls || oldest === undefined) return;
    this.open.delete(oldest);
    this.ends.get(oldest)?.();
  }
}
