import type { IncomingMessage } from 'node:http';
import { type ErrorBody, fromBody, SvcError } from '../../../errors.ts';
import type { LogQuery } from './query.ts';

const HANDSHAKE_MS = 3_000;
const DONE = 1000;
const GOING_AWAY = 1001;
const LINES_WAITING_MAX = 1024;
const REFUSAL_BYTES_MAX = 64 * 1024;

/** Why the lines ended: all were sent, or the daemon stopped. */
export type Ending = 'done' | 'stopped';

/**
 * Streams the log lines of a running daemon, with backpressure.
 * Throws the refusal of the daemon, daemon_not_running, timed_out, connection_lost.
 */
export async function linesFromDaemon(
  http: string,
  token: string,
  query: LogQuery,
  onLine: (line: string) => Promise<void>,
  signal: AbortSignal,
): Promise<Ending> {
  // Not imported above: without --follow it is not needed, and it is slow to load.
  const { WebSocket } = await import('ws');
  const socket = new WebSocket(`${http.replace(/^http/, 'ws')}/v1/logs?${search(query)}`, {
    headers: { authorization: `Bearer ${token}` },
    handshakeTimeout: HANDSHAKE_MS,
    perMessageDeflate: false,
  });
  return new Promise<Ending>((resolve, reject) => {
    let taken = Promise.resolve();
    let waiting = 0;
    const fail = (error: unknown) => {
      reject(error);
      socket.terminate();
    };
    signal.addEventListener('abort', () => socket.terminate());
    socket.on('message', (data) => {
      waiting += 1;
      if (waiting === LINES_WAITING_MAX) socket.pause();
      taken = taken
        .then(() => onLine(data.toString()))
        .then(() => {
          waiting -= 1;
          if (waiting === 0) socket.resume();
        });
      taken.catch(fail);
    });
    socket.on('unexpected-response', (_, response) => void readRefusal(response).then(fail));
    socket.on('error', (cause) => (signal.aborted ? resolve('done') : fail(noAddress(cause))));
    socket.on('close', (code) => {
      const ended = () =>
        code === DONE || signal.aborted
          ? resolve('done')
          : code === GOING_AWAY
            ? resolve('stopped')
            : reject(new SvcError('connection_lost'));
      taken.then(ended, fail);
    });
  });
}

/** The error in the response, if it has one. */
async function readRefusal(response: IncomingMessage): Promise<SvcError> {
  let text = '';
  try {
    for await (const chunk of response.setEncoding('utf8'))
      if (text.length < REFUSAL_BYTES_MAX) text += chunk;
    const { error } = JSON.parse(text) as { error?: Partial<ErrorBody> };
    if (typeof error?.code === 'string') return fromBody(error);
  } catch {
    // The body is not an error of svc: the status has to do.
  }
  return new SvcError(
    'connection_lost',
    `The server on the daemon's HTTP address refused to send a log (${response.statusCode}).`,
  );
}

/** Only a refused connection means no daemon. A hung one accepts it; a dying one resets it. */
function noAddress(cause: Error): SvcError {
  const { code } = cause as NodeJS.ErrnoException;
  if (code === 'ECONNRESET')
    return new SvcError(
      'connection_lost',
      'The daemon closed the connection on its HTTP address.',
      { cause },
    );
  return new SvcError(
    code === 'ECONNREFUSED' ? 'daemon_not_running' : 'timed_out',
    'The daemon does not answer on its HTTP address.',
    { cause },
  );
}

function search({ lines, follow, level, run, since }: LogQuery): URLSearchParams {
  const query = {
    tail: String(lines),
    follow: follow ? '1' : '0',
    level,
    run,
    since: since === undefined ? undefined : new Date(since).toISOString(),
  };
  return new URLSearchParams(
    Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}
