import type { ServerResponse } from 'node:http';
import { asSvcError, SvcError } from '../../errors.ts';
import { isTerminalEvent } from '../../runtime/contract.ts';
import type { Context } from './route.ts';
import { pieceWriter } from './write-pieces.ts';

/**
 * Streams a run's events from a position to its terminal event. `id:` is the position in the log,
 * so that Last-Event-ID resumes. A stream without a terminal event ends with an event
 * `stream.closed`, which says why and has no id.
 *
 * 1. Nothing is read ahead of the client: a page is read when the last one is sent.
 * 2. Unsent bytes are counted. A stream that is closed for them ends without its last bytes, and
 *    Last-Event-ID resumes it.
 * 3. A heartbeat keeps the connection of a client that reads. The listener closes one that does
 *    not, and the run continues.
 */
export async function streamRun(context: Context, run_id: string, from_seq: number): Promise<void> {
  const { res, runtime, limits, closing, ended, unsent } = context;
  if (res.destroyed) return;
  unsent.admit();
  const leave = new AbortController();
  const stop = () => leave.abort();
  res.once('close', stop);
  for (const signal of [closing, ended]) {
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
  }
  begin(res, run_id);
  const outflow = unsent.enter(() => res.destroy());
  const write = pieceWriter(res, outflow);
  const beat = setInterval(() => res.writableNeedDrain || res.write(': \n\n'), limits.heartbeat_ms);
  let unwatch = () => {};
  try {
    unwatch = runtime.watchQueue(
      run_id,
      (position) => position !== null && !res.writableNeedDrain && res.write(placeText(position)),
    );
    let over = false;
    for await (const { page, events } of runtime.followRun(run_id, {
      from_seq,
      signal: leave.signal,
    })) {
      outflow.hold(page);
      await write(page.frames(events));
      outflow.release(page);
      over = isTerminalEvent(events.at(-1)?.type ?? '');
    }
    if (!over && ended.aborted) throw ended.reason;
    if (!over)
      throw new SvcError(
        'daemon_stopping',
        'The daemon stops. Continue with Last-Event-ID after its next start.',
      );
  } catch (thrown) {
    const error = asSvcError(thrown);
    if (error.code === 'internal' && !res.destroyed)
      context.log.error({ err: error.cause ?? error, run_id }, 'a stream failed');
    if (!res.destroyed)
      res.write(`event: stream.closed\ndata: ${JSON.stringify({ error: error.body() })}\n\n`);
  } finally {
    clearInterval(beat);
    unwatch();
    outflow.leave();
    for (const signal of [closing, ended]) signal.removeEventListener('abort', stop);
    res.end();
  }
}

function begin(res: ServerResponse, run_id: string): void {
  res.writeHead(200, {
    'Content-Type': 'text/event-stream',
    'Cache-Control': 'no-store',
    'X-Accel-Buffering': 'no',
    'X-Content-Type-Options': 'nosniff',
    'X-Svc-Run-Id': run_id,
  });
  res.flushHeaders();
}

/** The run's position in the queue. It is no event of the log, so it has no id. */
function placeText(queue_position: number): string {
  return `event: queue.position\ndata: ${JSON.stringify({ queue_position })}\n\n`;
}
