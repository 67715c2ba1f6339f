import type { EventStore, StoredEvent } from '../store/store.ts';
import type { Kernel } from './kernel.ts';

const PAGE = 256;

export interface FollowOptions {
  /** Events from this position of the log on. */
  from_seq?: number;
  signal: AbortSignal;
  /** True for the event after which nothing more comes. */
  isLast(event: StoredEvent): boolean;
}

/**
 * The events of one stream: replayed, then live. A follower holds a cursor and nothing else: what it has not read yet is in
 * memory or on disk, so that a slow one costs no memory and misses nothing.
 */
export async function* followStream(kernel: Kernel, store: EventStore, stream: string, options: FollowOptions): AsyncIterable<StoredEvent> {
  const { from_seq = 0, signal, isLast } = options;
  const leave = () => kernel.cell(stream)?.wake();
  signal.addEventListener('abort', leave);
  try {
    for (let version = 0; !signal.aborted; ) {
      const cell = kernel.cell(stream);
      const recent = cell?.recent ?? [];
      const first = recent[0]?.version ?? Number.POSITIVE_INFINITY;
      const caughtUp = cell !== undefined && cell.version <= version;
      if (caughtUp && kernel.closed) return;
      const waiting = caughtUp ? cell.next() : null;
      const page = waiting !== null ? [] : first <= version + 1 ? recent.slice(version + 1 - first) : await store.readStream(stream, version + 1, PAGE);
      for (const event of page) {
        version = event.version;
        if (event.seq >= from_seq) yield event;
        if (isLast(event) || signal.aborted) return;
      }
      if (waiting !== null) await waiting;
      else if (page.length === 0) return;
    }
  } finally {
    signal.removeEventListener('abort', leave);
  }
}
