import type { StoredEvent } from '../store/port.ts';
import { isoTime } from './clock.ts';
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
 * Events for clients, as data and as the bytes that some of them are sent: server-sent events or
 * messages of a WebSocket. Each form is written once, when the first client needs it, and all who
 * are sent it share it.
 *
 * 1. Bytes never change: a socket may hold them for as long as its client does not read.
 * 2. The frames of events that follow each other are one piece of the bytes, and each holds the
 *    event's JSON.
 * 3. `holders` of a form counts the connections that have not sent its bytes yet. That of `plain`
 *    counts those that have not used the data. Only the budget of unsent bytes changes them.
 * 4. With the first form the data go. The second one is written from the JSON of the first.
 */
export class EventPage {
  readonly events: readonly PagedEvent[];
  readonly plain: { readonly size: number; holders: number };
  /** Called with the change of `cost` when bytes are written. */
  onWritten: (more: number) => void = () => {};
  /** Null: a form is written, and has everything. */
  private stored: readonly StoredEvent[] | null;
  private sent: Frames | null = null;
  private message: Frames | null = null;

  constructor(stored: readonly StoredEvent[]) {
    this.stored = stored;
    const paged = ({ seq, stream, version, type }: StoredEvent, index: number): PagedEvent => {
      return { seq, stream, version, type, index };
    };
    this.events = stored.map(paged);
    const size = stored.reduce((sum, { data }) => sum + textLength(data), 0);
    this.plain = { size, holders: 0 };
  }

  /** Server-sent events. */
  get frames(): Frames {
    this.sent ??= this.write(serverSent);
    return this.sent;
  }

  /** Messages of a WebSocket, as a server sends them. */
  get messages(): Frames {
    this.message ??= this.write(textMessage);
    return this.message;
  }

  /** About what the page takes in memory. */
  get cost(): number {
    if (this.stored !== null) return this.plain.size;
    return (this.sent?.size ?? 0) + (this.message?.size ?? 0);
  }

  /** The time of an event in milliseconds, and its data, which must not be changed. */
  told(event: PagedEvent): Pick<StoredEvent, 'at' | 'data'> {
    const stored = this.stored?.[event.index];
    if (stored !== undefined) return stored;
    const { at, data } = JSON.parse(this.written.json(event).toString()) as EventRecord;
    return { at: Date.parse(at), data };
  }

  /** A form that is written. */
  private get written(): Frames {
    return this.sent ?? this.message ?? this.frames;
  }

  private write(form: Form): Frames {
    const { stored } = this;
    const json = (event: PagedEvent) =>
      stored === null
        ? this.written.json(event)
        : Buffer.from(JSON.stringify(toRecord(stored[event.index] as StoredEvent)));
    const frames = new Frames(this.events, form, json);
    this.onWritten(stored === null ? frames.size : frames.size - this.plain.size);
    this.stored = null;
    return frames;
  }
}

/** The events of one page in one form. */
export class Frames {
  holders = 0;
  readonly bytes: Buffer;
  /** Of each event: where its frame begins, its JSON, where that ends, and where the frame ends. */
  private readonly places: readonly Place[];

  constructor(events: readonly PagedEvent[], form: Form, json: (event: PagedEvent) => Buffer) {
    const parts: Buffer[] = [];
    let end = 0;
    this.places = events.map((event) => {
      const text = json(event);
      const [head, tail] = form(event, text.length);
      parts.push(head, text, tail);
      const [start, begins] = [end, end + head.length];
      end = begins + text.length + tail.length;
      return { start, json: begins, jsonEnd: begins + text.length, end };
    });
    this.bytes = Buffer.concat(parts, end);
  }

  get size(): number {
    return this.bytes.length;
  }

  /** The record of one event, without a copy. */
  json({ index }: PagedEvent): Buffer {
    const { json = 0, jsonEnd = 0 } = this.places[index] ?? {};
    return this.bytes.subarray(json, jsonEnd);
  }

  /** The frames of these events, which follow each other, without a copy. */
  of(events: readonly PagedEvent[]): Buffer {
    const [first, last] = [events[0]?.index ?? 0, events.at(-1)?.index ?? -1];
    return this.bytes.subarray(this.places[first]?.start ?? 0, this.places[last]?.end ?? 0);
  }

  /**
   * The same in parts of about so many bytes, for events with gaps between them. A part has whole
   * frames only.
   */
  *parts(events: readonly PagedEvent[], part_bytes: number): Iterable<Buffer[]> {
    let spans: { start: number; end: number }[] = [];
    let bytes = 0;
    for (const { index } of events) {
      const { start = 0, end = 0 } = this.places[index] ?? {};
      const last = spans.at(-1);
      if (last?.end === start) last.end = end;
      else spans.push({ start, end });
      bytes += end - start;
      if (bytes < part_bytes) continue;
      yield this.piecesOf(spans);
      [spans, bytes] = [[], 0];
    }
    if (spans.length > 0) yield this.piecesOf(spans);
  }

  private piecesOf(spans: readonly { start: number; end: number }[]): Buffer[] {
    return spans.map(({ start, end }) => this.bytes.subarray(start, end));
  }
}

interface Place {
  start: number;
  json: number;
  jsonEnd: number;
  end: number;
}

/** What is before and behind the JSON of an event, which has so many bytes. */
type Form = (event: PagedEvent, length: number) => [Buffer, Buffer];

const serverSent: Form = ({ seq, type }) => [
  Buffer.from(`id: ${seq}\nevent: ${type}\ndata: `),
  FRAME_END,
];

const FRAME_END = Buffer.from('\n\n');

/** RFC 6455, 5.2. A server masks nothing, so all its clients can be sent the same bytes. */
const textMessage: Form = (_, length) => {
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = WHOLE_TEXT;
  head[1] = length < 126 ? length : length < 65_536 ? 126 : 127;
  if (head.length === 4) head.writeUInt16BE(length, 2);
  if (head.length === 10) head.writeUIntBE(length, 4, 6);
  return [head, NOTHING];
};

const WHOLE_TEXT = 0x81;
const NOTHING = Buffer.alloc(0);
