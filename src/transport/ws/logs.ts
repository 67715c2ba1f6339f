import type { WebSocket } from 'ws';
import { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import { createFilter } from '../../logs/filter.ts';
import type { LogHub } from '../../logs/hub.ts';
import { openTail } from '../../logs/tail.ts';
import type { Outflow } from '../../runtime/send/unsent-bytes.ts';
import type { LogQuery } from './log-query.ts';

export interface LogSourceOptions {
  hub: LogHub;
  folder: string;
  limits: Limits;
}

export type SendLogs = (
  socket: WebSocket,
  query: LogQuery,
  outflow: Outflow,
  signal: AbortSignal,
) => Promise<void>;

/**
 * Gives the function that sends the tail, then what is logged from then on, one line a message, until the signal aborts or the client goes.
 *
 * 1. Following begins in the same instant as the files are opened: between tail and new lines none is lost or doubled.
 * 2. A client is sent more when it has taken what was sent, and that is counted; what it is too slow for is told as `{"missed":n}`.
 * 3. So many tails are being sent at one time, each with a block in memory; one more is refused as busy.
 */
export function createLogSender({ hub, folder, limits }: LogSourceOptions): SendLogs {
  let tails = 0;
  const sendTail = async (
    send: (lines: readonly string[]) => Promise<boolean>,
    query: LogQuery,
  ) => {
    if (tails >= limits.log_tails)
      throw new SvcError('busy', `${tails} tails of the log are being sent, as many as may.`);
    tails += 1;
    try {
      for await (const lines of openTail(folder, query, { search_bytes: limits.log_search_bytes }))
        if (!(await send(lines))) return;
    } finally {
      tails -= 1;
    }
  };
  return async (socket, query, outflow, signal) => {
    const judge = createFilter(query);
    const send = (lines: readonly string[]) => sendAll(socket, lines, outflow);
    const follower = query.follow ? hub.follow((line) => judge(line) === 'match') : null;
    const leave = () => follower?.close();
    signal.addEventListener('abort', leave);
    socket.once('close', leave);
    try {
      if (query.lines > 0) await sendTail(send, query);
      for (let batch = await follower?.next(); batch; batch = await follower?.next()) {
        await send(
          batch.missed > 0
            ? [JSON.stringify({ missed: batch.missed }), ...batch.lines]
            : batch.lines,
        );
      }
    } finally {
      signal.removeEventListener('abort', leave);
      leave();
    }
  };
}

/** Resolves when the system has taken all of them; false when the client is gone. */
async function sendAll(
  socket: WebSocket,
  lines: readonly string[],
  outflow: Outflow,
): Promise<boolean> {
  outflow.own(lines.reduce((bytes, line) => bytes + line.length, 0));
  for (const [index, line] of lines.entries()) {
    if (socket.readyState !== socket.OPEN) return false;
    const last = index === lines.length - 1;
    if (last || socket.bufferedAmount > UNSENT_BYTES)
      await new Promise<void>((resolve) => socket.send(line, () => resolve()));
    else socket.send(line);
  }
  outflow.own(0);
  return true;
}

const UNSENT_BYTES = 64 * 1024;
