import { SvcError } from '../errors.ts';
import type { EventStore, StoredEvent } from '../store/store.ts';
import { type Cell, outputOf } from './cell.ts';
import { withText } from './content.ts';
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
 * The events of one stream: replayed, then live. A follower holds a cursor: what it has not read yet is in memory or on disk,
 * so that a slow one costs no memory and misses nothing. Only where the disk does not hold what is said, it holds the run too.
 * Throws content_not_kept where an answer has a text that nobody knows any more: a hole would look like the whole.
 */
export async function* followStream(kernel: Kernel, store: EventStore, stream: string, options: FollowOptions): AsyncIterable<StoredEvent> {
  const { from_seq = 0, signal, isLast } = options;
  const leave = () => kernel.cell(stream)?.wake();
  signal.addEventListener('abort', leave);
  let held: Cell | undefined;
  try {
    for (let version = 0; !signal.aborted; ) {
      const cell = kernel.cell(stream);
      if (cell !== undefined && kernel.omitsOutput) held = cell;
      const recent = cell?.recent ?? [];
      const first = recent[0]?.version ?? Number.POSITIVE_INFINITY;
      const caughtUp = cell !== undefined && cell.version <= version;
      if (caughtUp && kernel.closed) return;
      const waiting = caughtUp ? cell.next() : null;
      const page = waiting !== null ? [] : first <= version + 1 ? recent.slice(version + 1 - first) : await store.readStream(stream, version + 1, PAGE);
      for (const event of page) {
        version = event.version;
        if (event.seq >= from_seq) yield withText(event, outputOf(held)) ?? notKept(stream);
        if (isLast(event) || signal.aborted) return;
      }
      if (waiting !== null) await waiting;
      else if (page.length === 0) return;
    }
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

function notKept(stream: string): never {
  throw new SvcError('content_not_kept', 'What the run has said so far is not kept in the log, so that it cannot be told again.', {
    hint: `What is kept: svc runs show ${stream}`,
  });
}
