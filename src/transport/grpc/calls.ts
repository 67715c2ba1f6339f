import type { Metadata, ServerUnaryCall, sendUnaryData } from '@grpc/grpc-js';
import { asSvcError, SvcError } from '../../errors.ts';
import type { Log } from '../../kernel/port.ts';
import type { Runtime } from '../../runtime/port.ts';
import { textLength } from '../stream/json-pieces.ts';
import type { UnsentBytes } from '../stream/unsent-bytes.ts';
import { CallStream, type Streaming } from './call-stream.ts';
import { statusOf } from './status.ts';

/** What the answers of all calls need. What an answer throws is the status of its call. */
export interface CallParts {
  /** What the client of a call may see and change. */
  runtimeOf(metadata: Metadata): Runtime;
  log: Log;
  unsent: UnsentBytes;
  /** Closes the connection of a peer. */
  cut(peer: string): void;
}

type Unary<Q> = ServerUnaryCall<Q, object>;

/**
 * Answers a call with one message, whose bytes count until the client has them. `large`: it reads
 * texts of runs, and only a few such answers are made at one time.
 */
export function unary<Q>(
  { log, unsent, cut, runtimeOf }: CallParts,
  large: boolean,
  answer: (runtime: Runtime, request: Q, over: AbortSignal) => Promise<object>,
) {
  return async (call: Unary<Q>, reply: sendUnaryData<object>): Promise<void> => {
    const outflow = unsent.enter(() => cut(call.getPeer()));
    const over = new AbortController();
    const end = () => {
      outflow.leave();
      over.abort(new SvcError('connection_lost'));
    };
    if (call.cancelled) return end();
    call.once('cancelled', end);
    const make = async () => {
      if (call.cancelled) return {};
      const value = await answer(runtimeOf(call.metadata), call.request, over.signal);
      outflow.own(textLength(value));
      return value;
    };
    try {
      reply(null, await (large ? unsent.whole(make) : make()));
    } catch (thrown) {
      reply(failed(thrown, log));
    }
  };
}

/** Answers a call with a stream, which ends when `answer` does. */
export function streaming(
  { log, unsent, cut, runtimeOf }: CallParts,
  answer: (runtime: Runtime, call: Streaming, stream: CallStream) => Promise<void>,
) {
  return async (call: Streaming): Promise<void> => {
    try {
      const stream = new CallStream(call, unsent, () => cut(call.getPeer()));
      await answer(runtimeOf(call.metadata), call, stream);
      call.end();
    } catch (thrown) {
      call.emit('error', failed(thrown, log));
    }
  };
}

function failed(thrown: unknown, log: Log): ReturnType<typeof statusOf> {
  const error = asSvcError(thrown);
  if (error.code === 'internal') log.error({ err: error.cause ?? error }, 'a gRPC call failed');
  return statusOf(error);
}
