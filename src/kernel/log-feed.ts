import { SvcError } from '../errors.ts';
import type { EventStore, StoredEvent } from '../store/store.ts';
import { outputOf } from './cell.ts';
import { withText } from './content.ts';
import type { Kernel } from './kernel.ts';
import type { LogTail } from './log-tail.ts';

const PAGE = 64;

export interface FollowLogOptions {
  /** Events from this position on; without one, only those that are not there yet. */
  from_seq?: number;
  /** Go on with new ones; otherwise it ends with what is there at its beginning. */
  follow: boolean;
  signal: AbortSignal;
  wants(event: StoredEvent): boolean;
}

/**
 * The events of the whole log, replayed, then live. A follower holds a cursor and the page it is reading, so that a slow one costs
 * nobody anything and misses nothing. It ends early when the signal aborts. Throws busy, not_ready, and daemon_stopping when the kernel closes.
 */
export async function* followLog(kernel: Kernel, store: Pick<EventStore, 'readAll'>, tail: LogTail, options: FollowLogOptions): AsyncIterable<StoredEvent> {
  const { follow, signal, wants } = options;
  const leave = tail.enter();
  const last = kernel.durableSeq;
  try {
    for (let next = options.from_seq ?? last + 1; ; ) {
      if (signal.aborted || (!follow && next > last)) return;
      if (kernel.closed) throw new SvcError('daemon_stopping');
      if (next > kernel.durableSeq) {
        await tail.next(signal);
        continue;
      }
      const page = tail.read(next, PAGE) ?? (await readPage(kernel, store, next));
      // Events that the log has no more leave nothing to read.
      if (page.length === 0) next = kernel.durableSeq + 1;
      for (const event of page) {
        if (signal.aborted || (!follow && event.seq > last)) return;
        next = event.seq + 1;
        if (wants(event)) yield withText(event, outputOf(kernel.cell(event.stream))) ?? event;
      }
    }
  } finally {
    leave();
  }
}

/** That the store was closed under our feet is not its failure. */
async function readPage(kernel: Kernel, store: Pick<EventStore, 'readAll'>, from_seq: number): Promise<StoredEvent[]> {
  try {
    return await store.readAll(from_seq, PAGE);
  } catch (error) {
    if (kernel.closed) throw new SvcError('daemon_stopping');
    throw error;
  }
}
