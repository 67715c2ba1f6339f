import type { StoredEvent } from '../store/port.ts';
import { isoTime } from './clock.ts';
import { createGate } from './gate.ts';

/** An event as users see it. */
export interface EventRecord {
  seq: number;
  stream: string;
  version: number;
  type: string;
  at: string;
  boot_id: string;
  data: Record<string, unknown>;
}

export function toRecord(event: StoredEvent): EventRecord {
  return {
    seq: event.seq,
    stream: event.stream,
    version: event.version,
    type: event.type,
    at: isoTime(event.at),
    boot_id: event.boot_id,
    data: event.data,
  };
}

/** One event of a page: its name, and where its text is in the bytes of the page. */
export interface PagedEvent {
  readonly seq: number;
  readonly stream: string;
  readonly version: number;
  readonly type: string;
  /** Its frame as a server-sent event begins here. */
  readonly start: number;
  /** Its record as JSON begins here. */
  readonly json: number;
  readonly end: number;
}

/** What one follower is sent at one time: some events of a page, in order. */
export interface EventSlice {
  readonly page: EventPage;
  readonly events: readonly PagedEvent[];
}

/**
 * Events as the bytes that clients are sent. It is written once, and all who are sent it share it.
 *
 * 1. The bytes never change: a socket may hold them for as long as its client does not read.
 * 2. The frames of events that follow each other are one piece of the bytes, and each holds the
 *    event's JSON.
 * 3. `holders` counts the connections that have not sent it yet. Only the budget of unsent bytes
 *    changes it.
 */
export class EventPage {
  readonly events: readonly PagedEvent[];
  readonly bytes: Buffer;
  holders = 0;

  constructor(records: readonly EventRecord[]) {
    const frames: Buffer[] = [];
    let end = 0;
    this.events = records.map((record) => {
      const { seq, stream, version, type } = record;
      const head = `id: ${seq}\nevent: ${type}\ndata: `;
      const frame = Buffer.from(`${head}${JSON.stringify(record)}${FRAME_END}`);
      frames.push(frame);
      const start = end;
      end += frame.length;
      return { seq, stream, version, type, start, json: start + Buffer.byteLength(head), end };
    });
    this.bytes = frames.length === 1 ? (frames[0] as Buffer) : Buffer.concat(frames, end);
  }

  get size(): number {
    return this.bytes.length;
  }

  /** The record of one event, without a copy. */
  json({ json, end }: PagedEvent): Buffer {
    return this.bytes.subarray(json, end - FRAME_END.length);
  }

  /** The server-sent events of these, which follow each other, without a copy. */
  frames(events: readonly PagedEvent[]): Buffer {
    return this.bytes.subarray(events[0]?.start ?? 0, events.at(-1)?.end ?? 0);
  }
}

const FRAME_END = '\n\n';

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
