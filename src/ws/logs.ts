import type { WebSocket } from 'ws';
import type { Limits } from '../limits.ts';
import { createFilter } from '../logs/filter.ts';
import type { LogHub } from '../logs/hub.ts';
import { readTail } from '../logs/tail.ts';
import type { LogQuery } from './log-query.ts';

export interface LogSourceOptions {
  hub: LogHub;
  folder: string;
  limits: Limits;
}

/**
 * Sends the tail, then what is logged from then on, one line a message, until the signal aborts or the client goes.
 *
 * 1. Following begins in the same instant as the files are opened: between tail and new lines none is lost or doubled.
 * 2. A client is sent more when it has taken what was sent; what it is too slow for is counted and told as `{"missed":n}`.
 */
export async function sendLogs(socket: WebSocket, query: LogQuery, { hub, folder, limits }: LogSourceOptions, signal: AbortSignal): Promise<void> {
  const judge = createFilter(query);
  const follower = query.follow ? hub.follow((line) => judge(line) === 'match') : null;
  const leave = () => follower?.close();
  signal.addEventListener('abort', leave);
  socket.once('close', leave);
  try {
    await sendAll(socket, await readTail(folder, query, { search_bytes: limits.log_search_bytes }));
    for (let batch = await follower?.next(); batch; batch = await follower?.next()) {
      await sendAll(socket, batch.missed > 0 ? [JSON.stringify({ missed: batch.missed }), ...batch.lines] : batch.lines);
    }
  } finally {
    signal.removeEventListener('abort', leave);
    leave();
  }
}

/** Waits now and then until what was sent has gone out. */
async function sendAll(socket: WebSocket, lines: readonly string[]): Promise<void> {
  for (const [index, line] of lines.entries()) {
    if (socket.readyState !== socket.OPEN) return;
    const last = index === lines.length - 1;
    if (last || socket.bufferedAmount > UNSENT_BYTES) await new Promise<void>((resolve) => socket.send(line, () => resolve()));
    else socket.send(line);
  }
}

const UNSENT_BYTES = 64 * 1024;
