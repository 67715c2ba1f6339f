import type { WebSocket } from 'ws';
import { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import { createFilter } from '../../logs/filter.ts';
import type { LogHub } from '../../logs/hub.ts';
import { openTail } from '../../logs/tail.ts';
import type { Outflow } from '../stream/unsent-bytes.ts';
import type { LogQuery } from './log-query.ts';
import { sendAll } from './send-all.ts';

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
 * Returns a function that sends the tail of the log, then new lines, one a message. It ends when
 * the signal aborts or the client leaves.
 *
 * 1. Following begins at the instant that opens the files: no line is lost or doubled between tail
 *    and new lines.
 * 2. A client gets more when it has read the last lines. Lines that a slow client missed are
 *    counted as `{"missed":n}`.
 * 3. The number of tails at one time is bounded, since each has a block in memory. One more is
 *    refused as busy.
 */
export function createLogSender({ hub, folder, limits }: LogSourceOptions): SendLogs {
  let tails = 0;
  const sendTail = async (
    send: (lines: readonly string[]) => Promise<boolean>,
    query: LogQuery,
  ) => {
    if (tails >= limits.log_tails)
      throw new SvcError('busy', `${tails} tails of the log are being sent, the most at one time.`);
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
