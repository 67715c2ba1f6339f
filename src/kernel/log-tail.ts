import { SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { sizeInMemory } from './instance.ts';
import type { Kernel } from './kernel.ts';
import type { StoredEvent } from './store/port.ts';

/**
 * The end of the whole log, kept in memory for its followers.
 *
 * 1. It has no gaps: an event of another kernel begins it again. It is bounded by the number of
 *    events and by their texts. Older events are read from the store.
 * 2. It is kept only while it has a follower.
 * 3. When history was removed, it begins again: it may have events that the log has no more.
 */
export class LogTail {
  private readonly kernel: Kernel;
  private readonly limits: Pick<
    Limits,
    'feed_events' | 'feed_bytes' | 'event_followers' | 'store_page_bytes'
  >;
  private events: StoredEvent[] = [];
  private sizes: number[] = [];
  private bytes = 0;
  private followers = 0;
  private keeping: AbortController | null = null;

  constructor(kernel: Kernel, limits: LogTail['limits']) {
    this.kernel = kernel;
    this.limits = limits;
  }

  /** Adds a follower. Returns a function that removes it. Throws busy, not_ready. */
  enter(): () => void {
    if (!this.kernel.isOpen) throw new SvcError('not_ready');
    if (this.followers >= this.limits.event_followers)
      throw new SvcError('busy', `${this.followers} follow the event log, as many as may.`);
    this.followers += 1;
    if (this.keeping === null) {
      this.keeping = new AbortController();
      this.kernel.subscribe('all', (event) => this.keep(event), this.keeping.signal);
    }
    return () => this.leave();
  }

  /**
   * At most `limit` events from this position on, fewer when they are large; null when the position
   * is not in memory.
   */
  read(from_seq: number, limit: number): StoredEvent[] | null {
    const first = this.events[0]?.seq;
    if (first === undefined || from_seq < first) return null;
    const start = from_seq - first;
    let end = start;
    for (let bytes = 0; end < this.events.length && end < start + limit; end += 1) {
      bytes += this.sizes[end] ?? 0;
      if (bytes > this.limits.store_page_bytes && end > start) break;
    }
    return this.events.slice(start, end);
  }

  private keep(event: StoredEvent): void {
    const last = this.events.at(-1)?.seq ?? event.seq - 1;
    if (event.type === 'daemon.history_pruned' || event.seq !== last + 1) this.forget();
    const size = sizeInMemory(event.data);
    this.events.push(event);
    this.sizes.push(size);
    this.bytes += size;
    if (this.events.length > this.limits.feed_events || this.bytes > this.limits.feed_bytes)
      this.shrink();
  }

  /** To half of the bounds, so that it is not done at each event. */
  private shrink(): void {
    let dropped = 0;
    while (
      dropped < this.events.length &&
      (this.events.length - dropped > this.limits.feed_events / 2 ||
        this.bytes > this.limits.feed_bytes / 2)
    ) {
      this.bytes -= this.sizes[dropped] ?? 0;
      dropped += 1;
    }
    this.events.splice(0, dropped);
    this.sizes.splice(0, dropped);
  }

  private leave(): void {
    this.followers -= 1;
    if (this.followers > 0) return;
    this.keeping?.abort();
    this.keeping = null;
    this.forget();
  }

  private forget(): void {
    this.events = [];
    this.sizes = [];
    this.bytes = 0;
  }
}
