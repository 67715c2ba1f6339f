import { asSvcError, SvcError } from '../../errors.ts';
import type { Context } from '../http/route.ts';
import { onAbort } from './on-abort.ts';
import { announceEnd, sendEnd } from './stream-end.ts';
import type { Outflow } from './unsent-bytes.ts';
import { pieceWriter } from './write-pieces.ts';

/**
 * An answer that grows with its run, such as server-sent events.
 *
 * 1. `write` resolves when the system has the bytes. So nothing is made ahead of the client.
 * 2. Unsent bytes are counted. An answer that is closed for them ends without its last bytes.
 * 3. A heartbeat keeps the connection of a client that reads. The listener closes one that does
 *    not.
 * 4. An error before the first byte is an HTTP error. Later it is the last part of the answer.
 * 5. A client that asks for it learns how the answer ended from a trailer. See `stream-end.ts`.
 */
export interface Live {
  /** Aborted when the client has gone, the listener closes, or the session or token ends. */
  signal: AbortSignal;
  /** Counts pages of events while their texts are sent. */
  outflow: Outflow;
  /** Nothing to write still sends the headers. */
  write(bytes: Uint8Array | string): Promise<void>;
  /** Writes a text together with the end of the answer, and not before. */
  last(text: string): void;
  /** Writes a text that a slow client can miss. */
  offer(text: string): void;
}

export interface LiveOptions {
  type: 'text/event-stream' | 'application/x-ndjson';
  /** Null: it is of no run. */
  run_id: string | null;
  /** Sent when nothing else was for a while. Null: nothing is. */
  heartbeat: string | null;
  /** `now`: the headers wait for no event. `late`: they go with the first byte or heartbeat. */
  begin: 'now' | 'late';
  /** The last part of an answer that fails. */
  failure(error: SvcError): string;
}

/** An abort without a reason would make a new error with its stack for each stream. */
const LEFT = new Error('The stream has ended.');

/** `work` returns the error of the run, if its answer says it already. */
export async function sendLive(
  context: Context,
  options: LiveOptions,
  work: (live: Live) => Promise<SvcError | null>,
): Promise<void> {
  const { res, limits, closing, ended, unsent, log } = context;
  if (res.destroyed) return;
  unsent.admit();
  const leave = new AbortController();
  let isOver = false;
  // At the end nothing listens any more, and an abort would still make its event.
  const stop = () => isOver || leave.abort(LEFT);
  res.once('close', stop);
  const waits = [closing, ended].map((signal) => onAbort(signal, stop));
  if (closing.aborted || ended.aborted) stop();
  const begin = () => {
    if (!res.headersSent && !res.destroyed) writeHead(context, options);
  };
  let hasWritten = false;
  if (options.begin === 'now') {
    begin();
    // Mostly the first bytes follow in this turn, and one write has both.
    setImmediate(() => hasWritten || res.destroyed || res.flushHeaders());
  }
  const outflow = unsent.enter(() => res.destroy());
  const send = pieceWriter(res, outflow);
  const offer = (text: string) => {
    hasWritten = true;
    begin();
    if (!res.writableNeedDrain) res.write(text);
  };
  const write = (bytes: Uint8Array | string) => {
    hasWritten = true;
    begin();
    if (bytes.length === 0) res.flushHeaders();
    return send(typeof bytes === 'string' ? Buffer.from(bytes) : bytes);
  };
  let atEnd: string | null = null;
  const last = (text: string) => {
    atEnd = text;
  };
  const { heartbeat } = options;
  const beat = setInterval(() => heartbeat !== null && offer(heartbeat), limits.heartbeat_ms);
  let error: SvcError | null = null;
  try {
    error = await work({ signal: leave.signal, outflow, write, offer, last });
  } catch (thrown) {
    error = asSvcError(thrown);
    if (!res.headersSent) throw error;
    if (error.code === 'internal' && !res.destroyed)
      log.error({ err: error.cause ?? error, run_id: options.run_id }, 'a stream failed');
    if (!res.destroyed) res.write(options.failure(error));
  } finally {
    isOver = true;
    clearInterval(beat);
    outflow.leave();
    for (const endWait of waits) endWait();
    // An answer that comes whole has a length: one write of one text, instead of six parts.
    if (atEnd !== null && !res.headersSent && !res.destroyed)
      writeHead(context, options, Buffer.byteLength(atEnd));
    if (res.headersSent) {
      sendEnd(context, error);
      res.end(atEnd ?? '');
    }
  }
}

/** Why an answer ends before its run. The client may be gone; then nothing reads it. */
export function cutReasonOf({ ended }: Pick<Context, 'ended'>, message?: string): Error {
  if (ended.aborted) return ended.reason;
  return new SvcError('daemon_stopping', message);
}

/** `length`: of an answer that is known whole. One with a trailer must not say it. */
function writeHead(context: Context, { type, run_id }: LiveOptions, length?: number): void {
  const { res } = context;
  const ends = announceEnd(context);
  res.writeHead(200, {
    ...ends,
    ...(length === undefined || ends.Trailer !== undefined ? {} : { 'Content-Length': length }),
    'Content-Type': type,
    'Cache-Control': 'no-store',
    'X-Accel-Buffering': 'no',
    'X-Content-Type-Options': 'nosniff',
    ...(run_id === null ? {} : { 'X-Svc-Run-Id': run_id }),
  });
}
