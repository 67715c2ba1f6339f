import type { StoredEvent } from '../store/port.ts';
import { isoTime } from './clock.ts';
import { createGate } from './gate.ts';
import { textLength } from './instance.ts';

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

/** One event of a page. */
export interface PagedEvent {
  readonly seq: number;
  readonly stream: string;
  readonly version: number;
  readonly type: string;
  /** Its place in the page. */
  readonly index: number;
}

/** What one follower is sent at one time: some events of a page, in order. */
export interface EventSlice {
  readonly page: EventPage;
  readonly events: readonly PagedEvent[];
}

/**
 * Events for clients, as data and as the bytes that some of them are sent. The bytes are written
 * once, when the first client needs them, and all who are sent them share them.
 *
 * 1. The bytes never change: a socket may hold them for as long as its client does not read.
 * 2. The frames of events that follow each other are one piece of the bytes, and each holds the
 *    event's JSON.
 * 3. `holders` counts the connections that have not sent the bytes yet, and `plain` those that have
 *    not used the data. Only the budget of unsent bytes changes them.
 */
export class EventPage {
  readonly events: readonly PagedEvent[];
  readonly plain: { readonly size: number; holders: number };
  holders = 0;
  /** Called with the change of `cost` when the bytes are written. */
  onWritten: (more: number) => void = () => {};
  /** Null: the bytes are written, and have everything. */
  private stored: readonly StoredEvent[] | null;
  private written: Written | null = null;

  constructor(stored: readonly StoredEvent[]) {
    this.stored = stored;
    this.events = stored.map(({ seq, stream, version, type }, index) => ({
      ...{ seq, stream, version, type, index },
    }));
    const size = stored.reduce((sum, { data }) => sum + textLength(data), 0);
    this.plain = { size, holders: 0 };
  }

  get size(): number {
    return this.bytes.length;
  }

  get bytes(): Buffer {
    return this.write().bytes;
  }

  /** About what the page takes in memory. */
  get cost(): number {
    return this.written === null ? this.plain.size : this.written.bytes.length;
  }

  /** The time of an event in milliseconds, and its data, which must not be changed. */
  told(event: PagedEvent): Pick<StoredEvent, 'at' | 'data'> {
    const stored = this.stored?.[event.index];
    if (stored !== undefined) return stored;
    const { at, data } = JSON.parse(this.json(event).toString()) as EventRecord;
    return { at: Date.parse(at), data };
  }

  /** The record of one event, without a copy. */
  json({ index }: PagedEvent): Buffer {
    const { bytes, places } = this.write();
    const { json = 0, end = 0 } = places[index] ?? {};
    return bytes.subarray(json, end - FRAME_END.length);
  }

  /** The server-sent events of these, which follow each other, without a copy. */
  frames(events: readonly PagedEvent[]): Buffer {
    const { bytes, places } = this.write();
    const [first, last] = [events[0]?.index ?? 0, events.at(-1)?.index ?? -1];
    return bytes.subarray(places[first]?.start ?? 0, places[last]?.end ?? 0);
  }

  private write(): Written {
    if (this.written !== null) return this.written;
    const before = this.cost;
    this.written = framesOf(this.stored ?? []);
    this.stored = null;
    this.onWritten(this.cost - before);
    return this.written;
  }
}

interface Written {
  bytes: Buffer;
  /** Of each event: where its frame begins, its JSON, and where the frame ends. */
  places: readonly { start: number; json: number; end: number }[];
}

function framesOf(stored: readonly StoredEvent[]): Written {
  const frames: Buffer[] = [];
  let end = 0;
  const places = stored.map((event) => {
    const head = `id: ${event.seq}\nevent: ${event.type}\ndata: `;
    const frame = Buffer.from(`${head}${JSON.stringify(toRecord(event))}${FRAME_END}`);
    frames.push(frame);
    const start = end;
    end += frame.length;
    return { start, json: start + Buffer.byteLength(head), end };
  });
  return {
    bytes: frames.length === 1 ? (frames[0] as Buffer) : Buffer.concat(frames, end),
    places,
  };
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
      if (this.followers === 0) this.forget();
    };
  }

  /** Keeps nothing: what is asked for next is read from the log. */
  forget(): void {
    this.pages.clear();
    this.bytes = 0;
  }

  /** The page of this key, made now from events that are in memory. */
  make(key: string, events: () => readonly StoredEvent[]): EventPage {
    return this.find(key) ?? this.keep(key, new EventPage(events()));
  }

  /** The page of this key, read from the store; null when there are no such events. */
  async read(key: string, read: () => Promise<readonly StoredEvent[]>): Promise<EventPage | null> {
    const found = this.find(key);
    if (found !== undefined) return found;
    const asked = this.reading.get(key);
    if (asked !== undefined) return asked;
    const reading = this.gate(async () => {
      const events = await read();
      return events.length === 0 ? null : this.keep(key, new EventPage(events));
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
    this.bytes += page.cost + PAGE_OVERHEAD;
    page.onWritten = (more) => {
      if (this.pages.get(key) !== page) return;
      this.bytes += more;
      this.trim();
    };
    this.trim();
    return page;
  }

  private trim(): void {
    for (const [oldest, { cost }] of this.pages) {
      if (this.bytes <= this.bytes_max) break;
      this.pages.delete(oldest);
      this.bytes -= cost + PAGE_OVERHEAD;
    }
  }
}
