import { readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { StringDecoder } from 'node:string_decoder';
import { anySignal } from '../async/signals.ts';
import { whyUnusable } from '../causes.ts';
import { type ErrorBody, fromBody, SvcError } from '../errors.ts';
import { limitSpecs } from '../limits.ts';
import { toPlain } from '../logs/plain.ts';
import { isServed } from '../transport/control/is-served.ts';
import { readEnd } from '../transport/stream/stream-end.ts';
import { findSocket, whyUnread } from './terminal/connect/connect-daemon.ts';
import type { Context } from './terminal/context.ts';
import { INTERRUPTED, onInterrupt } from './terminal/interrupt.ts';
import { readStdin } from './terminal/parse/read-stdin.ts';
import { isTerminal } from './terminal/print/output.ts';
import { openStdout } from './terminal/print/stdout-stream.ts';

/**
 * One HTTP request over the local socket, without a token or a port.
 *
 * 1. The response is streamed to stdout. An error of svc sets the exit code, also an error in the
 *    middle of a stream. The text before it is printed.
 * 2. Ctrl-C and a closed stdout close the connection.
 */
export async function run({ args, flags, paths }: Context): Promise<number> {
  const [method = '', path = ''] = args;
  if (!METHODS.has(method.toUpperCase()))
    throw new SvcError('usage', `${JSON.stringify(method)} is not a method, such as GET or POST.`, {
      hint: `There are: ${[...METHODS].join(', ')}`,
    });
  if (!/^\/[\x21-\x7e]*$/.test(path))
    throw new SvcError(
      'usage',
      `The path must begin with / and have no spaces, not ${JSON.stringify(path)}.`,
    );
  const body = typeof flags.data === 'string' ? await readBody(flags.data) : null;
  const interrupt = onInterrupt();
  const stdout = openStdout();
  const leave = anySignal([interrupt.signal, stdout.gone]);
  const headers = {
    accept: flags.stream === true ? 'text/event-stream' : '*/*',
    // How a stream ended comes after it.
    te: 'trailers',
    connection: 'close, TE',
    ...(body === null ? {} : { 'content-type': 'application/json', 'content-length': body.length }),
  };
  try {
    const answer = await ask(
      paths,
      { method: method.toUpperCase(), path, headers, signal: leave },
      body,
    );
    const status = answer.statusCode ?? 0;
    if (status >= FAILED && answer.headers['content-type'] === 'application/json')
      throw await readError(answer);
    const failure = await printResponse(answer, stdout.write);
    await stdout.flush();
    if (failure !== null) throw failure;
    return status < FAILED ? 0 : NOT_SERVING;
  } catch (error) {
    if (interrupt.signal.aborted) return INTERRUPTED;
    if (stdout.gone.aborted) return 0;
    throw error;
  } finally {
    interrupt.release();
  }
}

const METHODS: ReadonlySet<string> = new Set([
  'GET',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'HEAD',
  'OPTIONS',
]);

async function ask(
  paths: Context['paths'],
  options: import('node:http').RequestOptions,
  body: Buffer | null,
): Promise<IncomingMessage> {
  const { request } = await import('node:http');
  const socketPath = findSocket(paths);
  return new Promise((resolve, reject) => {
    const outgoing = request({ ...options, socketPath, agent: false }, resolve);
    outgoing.on(
      'error',
      (cause: NodeJS.ErrnoException) =>
        void connectionErrorOf(cause, paths, socketPath).then(reject),
    );
    outgoing.end(body ?? undefined);
  });
}

async function connectionErrorOf(
  cause: NodeJS.ErrnoException,
  paths: Context['paths'],
  socket: string,
): Promise<SvcError> {
  const isReset = cause.code === 'ECONNRESET' || cause.code === 'EPIPE';
  const known = isReset ? await whyUnread(paths) : null;
  if (known !== null) return known;
  if (
    cause.code === 'ENOENT' ||
    cause.code === 'ECONNREFUSED' ||
    (isReset && !(await isServed(socket)))
  )
    return new SvcError('daemon_not_running', 'The daemon is not running.', { cause });
  if (cause.code === 'EACCES' || cause.code === 'EPERM')
    return new SvcError('unauthorised', 'The local socket belongs to another user.', {
      cause,
      hint: 'Run the command as the user who started the daemon.',
    });
  return new SvcError('connection_lost', undefined, { cause });
}

/** Prints the response as it comes. Resolves with the error that it ended with. */
async function printResponse(
  answer: IncomingMessage,
  write: (text: string) => Promise<void>,
): Promise<SvcError | null> {
  const decoder = new StringDecoder('utf8');
  const shown = isTerminal(1) ? toPlain : (text: string) => text;
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>)
      await write(shown(decoder.write(chunk)));
    await write(shown(decoder.end()));
  } catch (cause) {
    return incompleteErrorOf(answer, cause);
  }
  const end = readEnd(answer);
  if (end === 'cut') return incompleteErrorOf(answer);
  return end === 'unknown' ? null : end;
}

function incompleteErrorOf({ headers }: IncomingMessage, cause?: unknown): SvcError {
  const { 'x-svc-run-id': run_id } = headers;
  return new SvcError(
    'connection_lost',
    'The response is incomplete: the connection to the daemon ended before it.',
    {
      cause,
      hint:
        typeof run_id === 'string'
          ? `See what became of the run with: svc runs show ${run_id}`
          : undefined,
    },
  );
}

async function readError(answer: IncomingMessage): Promise<SvcError> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > ERROR_BYTES_MAX) break;
    chunks.push(chunk);
  }
  try {
    const { error } = JSON.parse(Buffer.concat(chunks).toString('utf8')) as {
      error: Partial<ErrorBody> | string;
    };
    const { 'x-svc-error': named } = answer.headers;
    const code = typeof named === 'string' ? { code: named } : {};
    return fromBody({ ...(typeof error === 'string' ? { message: error } : error), ...code });
  } catch (cause) {
    return new SvcError('connection_lost', 'The error response of the daemon is unreadable.', {
      cause,
    });
  }
}

async function readBody(data: string): Promise<Buffer> {
  if (data === '-') return readStdin(limitSpecs.body_bytes.max, tooLargeError);
  if (!data.startsWith('@')) return Buffer.from(data);
  const file = data.slice(1);
  return readFile(file).catch((cause: NodeJS.ErrnoException) => {
    throw new SvcError('usage', `The file ${file} cannot be used: ${whyUnusable(cause)}.`, {
      cause,
    });
  });
}

function tooLargeError(): SvcError {
  const { max } = limitSpecs.body_bytes;
  return new SvcError('body_too_large', `The body has more than ${max} bytes.`);
}

/** The health routes answer with an error status, but no error body, if the daemon is not ready. */
const NOT_SERVING = 4;
const FAILED = 400;
const ERROR_BYTES_MAX = 1024 * 1024;
