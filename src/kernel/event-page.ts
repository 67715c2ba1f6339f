import type { EventRecord } from './event-record.ts';

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
