import type { RunWait } from '../../contract/contract.ts';
import type { EventSlice, PagedEvent, PageForm, Sized } from '../../kernel/event-pages.ts';
import type { RunFollowing } from '../../kernel/feed.ts';
import type { StoredEvent } from '../../kernel/store/port.ts';
import type { Runtime } from '../../operations/port.ts';
import { toRecord } from '../../runtime/runs/event-record.ts';
import type { SharedBytes } from './unsent-bytes.ts';

/**
 * The forms in which clients get events. Each stream of a client has one, and the clients of one
 * form share the body of a page.
 */

/** Events as they are in the log, for APIs that say them in another way. */
export class EventData implements SharedBytes {
  readonly size: number;
  holders = 0;
  private readonly stored: readonly StoredEvent[];

  constructor(stored: readonly StoredEvent[], size: number) {
    this.stored = stored;
    this.size = size;
  }

  /** Its data must not be changed. */
  storedOf({ index }: PagedEvent): StoredEvent {
    return this.stored[index] as StoredEvent;
  }
}

/**
 * The frames of events, in one piece of bytes.
 *
 * 1. The bytes never change: a socket may hold them for as long as its client does not read.
 * 2. `holders` counts the connections that have not sent them yet. Only the budget of unsent bytes
 *    changes it.
 */
export class Frames implements SharedBytes {
  holders = 0;
  readonly bytes: Buffer;
  /** Where the frame of each event begins, and where the last one ends. */
  private readonly starts: readonly number[];

  constructor(stored: readonly StoredEvent[], frame: Frame) {
    const parts: Buffer[] = [];
    let end = 0;
    const starts = [end];
    for (const event of stored) {
      const json = Buffer.from(JSON.stringify(toRecord(event)));
      const [head, tail] = frame(event, json.length);
      parts.push(head, json, tail);
      end += head.length + json.length + tail.length;
      starts.push(end);
    }
    this.starts = starts;
    this.bytes = Buffer.concat(parts, end);
  }

  get size(): number {
    return this.bytes.length;
  }

  /** The frames of these events, which follow each other, without a copy. */
  bytesOf(events: readonly PagedEvent[]): Buffer {
    const [first, last] = [events[0]?.index ?? 0, events.at(-1)?.index ?? -1];
    return this.bytes.subarray(this.starts[first], this.starts[last + 1]);
  }

  /**
   * The same in parts of about so many bytes, for events with gaps between them. A part has whole
   * frames only.
   */
  *parts(events: readonly PagedEvent[], part_bytes: number): Iterable<Buffer[]> {
    let spans: { start: number; end: number }[] = [];
    let bytes = 0;
    for (const { index } of events) {
      const [start = 0, end = 0] = [this.starts[index], this.starts[index + 1]];
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

/** The bytes before and after the JSON of an event, which has so many bytes. */
type Frame = (event: StoredEvent, length: number) => [Buffer, Buffer];

const NOTHING = Buffer.alloc(0);
const FRAME_END = Buffer.from('\n\n');
/** The first byte of a message that is a whole text. */
const WHOLE_TEXT = 0x81;

const eventOfServer: Frame = ({ seq, type }) => [
  Buffer.from(`id: ${seq}\nevent: ${type}\ndata: `),
  FRAME_END,
];

/** RFC 6455, 5.2. A server masks nothing, so all its clients can be sent the same bytes. */
const textMessage: Frame = (_, length) => {
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = WHOLE_TEXT;
  head[1] = length < 126 ? length : length < 65_536 ? 126 : 127;
  if (head.length === 4) head.writeUInt16BE(length, 2);
  if (head.length === 10) head.writeUIntBE(length, 4, 6);
  return [head, NOTHING];
};

const framed = (name: string, frame: Frame): PageForm<Frames> => ({
  name,
  make: (stored) => new Frames(stored, frame),
});

export const eventData: PageForm<EventData> = {
  name: 'data',
  make: (stored, size) => new EventData(stored, size),
};
/** The record of each event as JSON, and nothing else. */
export const eventJson = framed('json', () => [NOTHING, NOTHING]);
export const serverSentEvents = framed('server-sent', eventOfServer);
export const socketMessages = framed('websocket', textMessage);

/**
 * The events of a run, and meanwhile what it waits for: its place in the queue, and how far its
 * model is loaded. The first events say that it waits, so nothing is reported before they are sent.
 * A stream that continues after them gets it at once.
 */
export async function* followWithWaits<B extends Sized>(
  runtime: Pick<Runtime, 'runs' | 'queue' | 'loads'>,
  id: string,
  following: RunFollowing<B> & { from_seq: number },
  report: (wait: RunWait) => unknown,
): AsyncGenerator<EventSlice<B>, void> {
  const over = new AbortController();
  let endLoads = () => {};
  let isWatching = false;
  const watch = () => {
    isWatching = true;
    const reportPlace = (queue_position: number | null) =>
      queue_position === null || void report({ queue_position });
    runtime.queue.watch(id, reportPlace, over.signal);
    endLoads = runtime.loads.watch(id, (loading) => void report({ loading }));
  };
  if (following.from_seq > (await runtime.runs.head(id)).seq) watch();
  try {
    for await (const slice of runtime.runs.follow(id, following)) {
      yield slice;
      if (!isWatching) watch();
      // A model that answers is loaded.
      if (slice.events.some(({ type }) => type === 'run.output_appended')) endLoads();
    }
  } finally {
    over.abort(OVER);
    endLoads();
  }
}

/** An abort without a reason would make a new error with its stack for each follower. */
const OVER = new Error('The follower has left.');
