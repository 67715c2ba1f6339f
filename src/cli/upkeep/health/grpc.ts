import { callAfter } from '../../../async/timers.ts';
import { SvcError } from '../../../errors.ts';
import { GrpcCalls } from './grpc-calls.ts';
import { ANSWER_MS, type Answer, type Source } from './sources.ts';

/** The standard health service, grpc.health.v1. Its messages have one field each: coded by hand. */
const CHECK = '/grpc.health.v1.Health/Check';
const WATCH = '/grpc.health.v1.Health/Watch';
const SERVING = 1;

export const grpc: Source = {
  async ask(address) {
    const calls = new GrpcCalls(address);
    try {
      const [live, ready] = await Promise.all([
        check(calls, 'svc.livez'),
        check(calls, 'svc.readyz'),
      ]);
      return answer(live, ready);
    } finally {
      calls.close();
    }
  },

  async *watch(address, signal) {
    const calls = new GrpcCalls(address);
    const stop = () => calls.close();
    signal.addEventListener('abort', stop);
    try {
      for await (const ready of calls.call(WATCH, encode('svc.readyz')))
        yield answer(await check(calls, 'svc.livez'), decode(ready));
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      signal.removeEventListener('abort', stop);
      calls.close();
    }
  },
};

async function check(calls: GrpcCalls, service: string): Promise<number> {
  const late = Promise.withResolvers<never>();
  const forget = callAfter(ANSWER_MS, () =>
    late.reject(new SvcError('timed_out', `There was no answer within ${ANSWER_MS / 1000} s.`)),
  );
  try {
    const messages = calls.call(CHECK, encode(service));
    const { value, done } = await Promise.race([messages.next(), late.promise]);
    return done === true ? 0 : decode(value);
  } finally {
    forget();
  }
}

function answer(live: number, ready: number): Answer {
  const is_ready = ready === SERVING;
  return {
    live: live === SERVING,
    ready: is_ready,
    status: is_ready ? 'pass' : 'fail',
    state: null,
    state_path: null,
    since: null,
    reason: null,
    version: null,
  };
}

/** HealthCheckRequest: field 1 is the name of the service. */
function encode(service: string): Buffer {
  const name = Buffer.from(service);
  return Buffer.concat([Buffer.from([0x0a, name.length]), name]);
}

/**
 * HealthCheckResponse: field 1 is the status, a number below 128; a status of 0 is not sent at all.
 */
function decode(message: Buffer): number {
  return message[0] === 0x08 ? (message[1] ?? 0) : 0;
}
