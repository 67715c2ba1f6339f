import { SvcError } from '../errors.ts';
import type { EventStore, StoredEvent } from '../store/port.ts';
import { withText } from './content.ts';
import { EventPage, type EventSlice, type PagedEvent } from './event-page.ts';
import type { EventPages } from './event-pages.ts';
import { toRecord } from './event-record.ts';
import { type Instance, outputOf } from './instance.ts';
import type { Kernel } from './kernel.ts';
import type { StreamKey } from './stream.ts';

/** Events in one page at most; the store bounds their bytes. */
const PAGE = 1024;

export interface Sources {
  kernel: Kernel;
  store: Pick<EventStore, 'readStream'>;
  pages: EventPages;
}

export interface FollowOptions {
  /** Events from this position of the log on. */
  from_seq?: number;
  signal: AbortSignal;
  /** True for the event after which nothing more comes. */
  isLast(event: Pick<PagedEvent, 'type'>): boolean;
}

/**
 * The events of one stream, page by page: replayed, then live. A follower holds a cursor: what it has not read yet is in memory or on
 * disk, so that a slow one costs one page at most, and misses nothing. Only where the disk does not hold what is said, it holds the run too.
 * Throws content_not_kept where an answer has a text that nobody knows any more: a hole would look like the whole.
 */
export async function* followStream(
  sources: Sources,
  stream: StreamKey,
  options: FollowOptions,
): AsyncIterable<EventSlice> {
  const { kernel, pages } = sources;
  const { from_seq = 0, signal, isLast } = options;
  const leave = pages.enter();
  let held: Instance | undefined;
  try {
    for (let version = 0; !signal.aborted; ) {
      const instance = kernel.instance(stream);
      if (instance !== undefined && kernel.omitsOutput) held = instance;
      const caughtUp = instance !== undefined && instance.version <= version;
      if (caughtUp && kernel.closed) return;
      if (caughtUp) {
        await instance.next(signal);
        continue;
      }
      const page =
        fromMemory(pages, instance, version + 1) ??
        (await fromStore(sources, stream, version + 1, { held, from_seq }));
      if (page === null) return;
      const slice = sliceOf(page, from_seq, isLast);
      version = slice.version;
      if (slice.events.length > 0) yield { page, events: slice.events };
      if (slice.over) return;
    }
  } finally {
    leave();
  }
}

/** What is in memory is the whole of what was said, also where the disk holds less. */
function fromMemory(
  pages: EventPages,
  instance: Instance | undefined,
  version: number,
): EventPage | null {
  const first = instance?.recent[0]?.version ?? Number.POSITIVE_INFINITY;
  if (instance === undefined || first > version) return null;
  return pages.make(`live ${instance.stream} ${version}`, () =>
    instance.recent.slice(version - first),
  );
}

/** Where the disk holds less than was said, the page is made for this follower alone: it holds the run that knows the rest. */
async function fromStore(
  { kernel, store, pages }: Sources,
  stream: string,
  version: number,
  { held, from_seq }: { held: Instance | undefined; from_seq: number },
): Promise<EventPage | null> {
  if (!kernel.omitsOutput)
    return pages.read(`${stream} ${version}`, () => store.readStream(stream, version, PAGE));
  const whole = (event: StoredEvent) =>
    event.seq < from_seq ? event : (withText(event, outputOf(held)) ?? notKept(stream));
  const events = await store.readStream(stream, version, PAGE);
  return events.length === 0 ? null : new EventPage(events.map((event) => toRecord(whole(event))));
}

function sliceOf(
  { events }: EventPage,
  from_seq: number,
  isLast: FollowOptions['isLast'],
): { events: readonly PagedEvent[]; version: number; over: boolean } {
  const last = events.findIndex(isLast);
  const all = last === -1 ? events : events.slice(0, last + 1);
  const wanted = (all[0]?.seq ?? 0) >= from_seq ? all : all.filter(({ seq }) => seq >= from_seq);
  return { events: wanted, version: all.at(-1)?.version ?? 0, over: last !== -1 };
}

function notKept(stream: string): never {
  throw new SvcError(
    'content_not_kept',
    'What the run has said so far is not kept in the log, so that it cannot be told again.',
    {
      hint: `What is kept: svc runs show ${stream}`,
    },
  );
}
