import WebSocket from 'ws';
import { SvcError } from '../../errors.ts';
import type { LogQuery } from './query.ts';

const HANDSHAKE_MS = 3_000;
const DONE = 1000;
const GOING_AWAY = 1001;
const LINES_WAITING_MAX = 1024;

/** How it ended: all was sent, or the daemon stopped. */
export type Ending = 'done' | 'stopped';

/**
 * The log lines of a running daemon, each as it comes. Reads no faster than they are taken.
 * Throws unauthorised, daemon_not_running, connection_lost.
 */
export async function linesFromDaemon(
  http: string,
  token: string,
  query: LogQuery,
  onLine: (line: string) => Promise<void>,
  signal: AbortSignal,
): Promise<Ending> {
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
    socket.on('unexpected-response', (_, response) =>
      fail(new SvcError(response.statusCode === 401 ? 'unauthorised' : 'connection_lost', `The daemon refused to send its log (${response.statusCode}).`)),
    );
    socket.on('error', (cause) => fail(new SvcError('daemon_not_running', 'The daemon does not answer on its HTTP address.', { cause })));
    socket.on('close', (code) => {
      const ended = () =>
        code === DONE || signal.aborted ? resolve('done') : code === GOING_AWAY ? resolve('stopped') : reject(new SvcError('connection_lost'));
      taken.then(ended, fail);
    });
  });
}

function search({ lines, follow, level, run, since }: LogQuery): URLSearchParams {
  const given = { tail: String(lines), follow: follow ? '1' : '0', level, run, since: since === undefined ? undefined : new Date(since).toISOString() };
  return new URLSearchParams(Object.entries(given).filter((entry): entry is [string, string] => entry[1] !== undefined));
}
