import type { StoredEvent } from '../store/port.ts';
import { EventPage } from './event-page.ts';
import { toRecord } from './event-record.ts';
import { createGate } from './gate.ts';

/** Pages read from the store at one time, for all followers together. */
const READS = 4;
/** What a page takes beside its bytes. */
const PAGE_OVERHEAD = 1024;

/**
 * The pages of events that followers are being sent, so that those at the same place share one.
 *
 * 1. A page that is asked for by many is read once and written once.
 * 2. What is kept is bounded by its bytes; the page that was asked for longest ago goes first.
 *    Nothing is kept without followers.
 * 3. Few pages are read at a time; a follower that waits for its turn holds nothing.
 */
export class EventPages {
  private readonly bytes_max: number;
  private readonly gate = createGate(READS);
  /** Asked for longest ago first. */
  private readonly pages = new Map<string, EventPage>();
  private readonly reading = new Map<string, Promise<EventPage | null>>();
  private bytes = 0;
  /** Clients that are being sent events. */
  followers = 0;

  constructor(bytes_max: number) {
    this.bytes_max = bytes_max;
  }

  /** One more follower; returns what it calls when it leaves. */
  enter(): () => void {
    this.followers += 1;
    return () => {
      this.followers -= 1;
      if (this.followers > 0) return;
      this.pages.clear();
      this.bytes = 0;
    };
  }

  /** The page of this key, made now from events that are in memory. */
  make(key: string, events: () => readonly StoredEvent[]): EventPage {
    return this.find(key) ?? this.keep(key, new EventPage(events().map(toRecord)));
  }

  /** The page of this key, read from the store; null when there are no such events. */
  async read(key: string, read: () => Promise<readonly StoredEvent[]>): Promise<EventPage | null> {
    const found = this.find(key);
    if (found !== undefined) return found;
    const asked = this.reading.get(key);
    if (asked !== undefined) return asked;
    const reading = this.gate(async () => {
      const events = await read();
      return events.length === 0 ? null : this.keep(key, new EventPage(events.map(toRecord)));
    }).finally(() => this.reading.delete(key));
    this.reading.set(key, reading);
    return reading;
  }

  private find(key: string): EventPage | undefined {
    const page = this.pages.get(key);
    if (page === undefined) return undefined;
    this.pages.delete(key);
    this.pages.set(key, page);
    return page;
  }

  private keep(key: string, page: EventPage): EventPage {
    const before = this.pages.get(key);
    if (before !== undefined) return before;
    if (this.followers === 0) return page;
    this.pages.set(key, page);
    this.bytes += page.size + PAGE_OVERHEAD;
    for (const [oldest, { size }] of this.pages) {
      if (this.bytes <= this.bytes_max) break;
      this.pages.delete(oldest);
      this.bytes -= size + PAGE_OVERHEAD;
    }
    return page;
  }
}
