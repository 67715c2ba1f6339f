import { SvcError } from '../errors.ts';
import { withText } from './content.ts';
import type { Elsewhere } from './elsewhere.ts';
import type { EventPages } from './event-pages.ts';
import {
  EventPage,
  type EventSlice,
  type PagedEvent,
  type PageForm,
  type Sized,
} from './event-pages.ts';
import { answerOf, type Instance } from './instance.ts';
import type { Kernel } from './kernel.ts';
import type { EventStore, StoredEvent } from './store/port.ts';
import type { StreamKey } from './stream.ts';

/** Events in one page at most; the store bounds their bytes. */
const PAGE = 1024;

export interface Sources {
  kernel: Kernel;
  store: Pick<EventStore, 'readStream'>;
  pages: EventPages;
  elsewhere: Elsewhere;
}

export interface RunFollowing<B extends Sized> {
  form: PageForm<B>;
  /** Events from this position of the log on. */
  from_seq?: number;
  /** Events after this one of the stream, by its version. Earlier ones are not read. */
  after?: number;
  signal: AbortSignal;
  /** Awaited before live events are yielded. Those that come meanwhile share their page. */
  ready?: () => Promise<void> | undefined;
}

export interface FollowOptions<B extends Sized> extends RunFollowing<B> {
  /** True for the last event of the stream. */
  isLast(event: Pick<PagedEvent, 'type'>): boolean;
}

/**
 * The events of one stream, page by page: replayed, then live. A follower keeps only a cursor and
 * one page, so a slow one uses little memory and misses nothing. If output is omitted from the log,
 * it also keeps the run in memory. Throws content_not_kept where the text of an output is lost: a
 * gap would look complete. A stream that another kernel writes is read from the store. Returns
 * whether the last event came.
 */
export async function* followStream<B extends Sized>(
  sources: Sources,
  stream: StreamKey,
  options: FollowOptions<B>,
): AsyncGenerator<EventSlice<B>, boolean> {
  const { kernel, pages } = sources;
  const { form, from_seq = 0, after = 0, signal, ready, isLast } = options;
  const leave = pages.enter(stream);
  const watch = sources.elsewhere.watch(stream);
  let held: Instance | undefined;
  // The machine may leave memory with the event that this waited for. It is not kept while a client
  // reads.
  let waited: Instance | undefined;
  try {
    for (let version = after; !signal.aborted; ) {
      const left = waited !== undefined && waited.version > version ? waited : undefined;
      const instance = kernel.instance(stream) ?? left;
      waited = undefined;
      if (instance !== undefined && kernel.omitsOutput) held = instance;
      const caughtUp = instance !== undefined && instance.version <= version;
      if (caughtUp && kernel.closed) return false;
      if (caughtUp) {
        await instance.next(signal);
        waited = instance;
        continue;
      }
      let live = fromMemory(pages, form, instance, version + 1);
      const wait = live === null ? undefined : ready?.();
      if (wait !== undefined) {
        await wait;
        live = fromMemory(pages, form, instance, version + 1) ?? live;
      }
      const page =
        live ?? (await fromStore(sources, form, stream, version + 1, { held, from_seq }));
      if (page === null) {
        if (version === 0 || !(await watch.next(signal)) || kernel.closed) return false;
        continue;
      }
      const slice = sliceOf(page, from_seq, isLast);
      version = slice.version;
      if (slice.events.length > 0) yield { page, events: slice.events };
      if (slice.over) return true;
    }
    return false;
  } finally {
    watch.end();
    leave();
  }
}

/** Events in memory have their text, even if the log omits it. */
function fromMemory<B extends Sized>(
  pages: EventPages,
  form: PageForm<B>,
  instance: Instance | undefined,
  version: number,
): EventPage<B> | null {
  const first = instance?.recent[0]?.version ?? Number.POSITIVE_INFINITY;
  if (instance === undefined || first > version) return null;
  return pages.make(instance.stream, `live ${version} ${instance.version}`, form, () =>
    instance.recent.slice(version - first),
  );
}

/**
 * If the log omits output, the page is made for this follower alone, from the run that it keeps.
 */
async function fromStore<B extends Sized>(
  { kernel, store, pages }: Sources,
  form: PageForm<B>,
  stream: string,
  version: number,
  { held, from_seq }: { held: Instance | undefined; from_seq: number },
): Promise<EventPage<B> | null> {
  if (!kernel.omitsOutput)
    return pages.read(stream, String(version), form, () => store.readStream(stream, version, PAGE));
  const whole = (event: StoredEvent) =>
    event.seq < from_seq ? event : (withText(event, answerOf(held)) ?? notKept(stream));
  const events = await store.readStream(stream, version, PAGE);
  return events.length === 0 ? null : new EventPage(events.map(whole), form);
}

function sliceOf(
  { events }: Pick<EventPage<Sized>, 'events'>,
  from_seq: number,
  isLast: FollowOptions<Sized>['isLast'],
): { events: readonly PagedEvent[]; version: number; over: boolean } {
  const last = events.findIndex(isLast);
  const all = last === -1 ? events : events.slice(0, last + 1);
  const wanted = (all[0]?.seq ?? 0) >= from_seq ? all : all.filter(({ seq }) => seq >= from_seq);
  return { events: wanted, version: all.at(-1)?.version ?? 0, over: last !== -1 };
}

function notKept(stream: string): never {
  throw new SvcError(
    'content_not_kept',
    'The log does not keep the output of this run, so it cannot be replayed.',
    { hint: `What is kept: svc runs show ${stream}` },
  );
}
