import type { Client, ServiceError } from '@grpc/grpc-js';
import { SvcError } from '../../errors.ts';
import { ANSWER_MS, type Answer, type Source } from './sources.ts';

/** The standard health service, grpc.health.v1. Its messages have one field each: coded by hand. */
const CHECK = '/grpc.health.v1.Health/Check';
const WATCH = '/grpc.health.v1.Health/Watch';
const SERVING = 1;
const DEADLINE_EXCEEDED = 4;

export const grpc: Source = {
  async ask(address) {
    const client = await open(address);
    try {
      const [live, ready] = await Promise.all([
        check(client, 'svc.livez'),
        check(client, 'svc.readyz'),
      ]);
      return answer(live, ready);
    } finally {
      client.close();
    }
  },

  async *watch(address, signal) {
    const client = await open(address);
    const call = client.makeServerStreamRequest(WATCH, encode, decode, 'svc.readyz');
    const stop = () => call.cancel();
    signal.addEventListener('abort', stop);
    try {
      for await (const ready of call as AsyncIterable<number>)
        yield answer(await check(client, 'svc.livez'), ready);
    } catch (error) {
      if (!signal.aborted) throw failure(error as ServiceError);
    } finally {
      signal.removeEventListener('abort', stop);
      client.close();
    }
  },
};

/** Imports the library on use: the bundle of the quick commands contains this file. */
async function open(address: string): Promise<Client> {
  const { Client, credentials } = await import('@grpc/grpc-js');
  const isSecure = address.startsWith('grpcs:');
  // The request has no secret: see connectSecurely in sources.ts.
  const by = isSecure
    ? credentials.createSsl(null, null, null, { rejectUnauthorized: false })
    : credentials.createInsecure();
  return new Client(address.replace(/^[a-z]+:\/\//, ''), by, {
    'grpc.enable_http_proxy': 0,
    // Without a name the library sends the number of the address as one, and Node.js warns.
    ...(isSecure ? { 'grpc.ssl_target_name_override': 'localhost' } : {}),
  });
}

function check(client: Client, service: string): Promise<number> {
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      CHECK,
      encode,
      decode,
      service,
      { deadline: Date.now() + ANSWER_MS },
      (error, value) => (error === null ? resolve(value ?? 0) : reject(failure(error))),
    );
  });
}

function failure(error: ServiceError): SvcError {
  if (error.code === DEADLINE_EXCEEDED)
    return new SvcError('timed_out', `There was no answer within ${ANSWER_MS / 1000} s.`, {
      cause: error,
    });
  return new SvcError(
    'daemon_not_running',
    `The health service answers with status ${error.code}.`,
    { cause: error },
  );
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
