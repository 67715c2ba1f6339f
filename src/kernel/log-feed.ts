import { SvcError } from '../errors.ts';
import { withText } from './content.ts';
import type { Elsewhere } from './elsewhere.ts';
import type {
  EventPage,
  EventPages,
  EventSlice,
  PagedEvent,
  PageForm,
  Sized,
} from './event-pages.ts';
import { answerOf } from './instance.ts';
import type { Kernel } from './kernel.ts';
import type { LogTail } from './log-tail.ts';
import type { EventStore, StoredEvent } from './store/port.ts';

const PAGE = 64;

export interface LogSources {
  kernel: Kernel;
  store: Pick<EventStore, 'readAll'>;
  tail: LogTail;
  pages: EventPages;
  elsewhere: Elsewhere;
}

export interface FollowLogOptions<B extends Sized> {
  form: PageForm<B>;
  /** Events from this position on; without one, only those that are not there yet. */
  from_seq?: number;
  /**
   * Continue with new events. Otherwise the feed ends with the events that are there at its
   * beginning.
   */
  follow: boolean;
  signal: AbortSignal;
  wants(event: PagedEvent): boolean;
  /** Awaited before live events are yielded. Those that come meanwhile share their page. */
  ready?: () => Promise<void> | undefined;
}

/**
 * The events of the whole log, page by page: replayed, then live. A follower holds a cursor and the
 * page it is being sent, so that a slow one misses nothing. It ends early when the signal aborts.
 * Throws busy, not_ready, and daemon_stopping when the kernel closes.
 */
export async function* followLog<B extends Sized>(
  sources: LogSources,
  options: FollowLogOptions<B>,
): AsyncIterable<EventSlice<B>> {
  const { kernel, tail, pages, elsewhere } = sources;
  const { form, follow, signal, wants, ready } = options;
  const leaveTail = tail.enter();
  const leavePages = pages.enter(LOG);
  const watch = elsewhere.watch('all');
  try {
    const last = await elsewhere.lastSeq();
    const wanted = (event: PagedEvent) => (follow || event.seq <= last) && wants(event);
    for (let next = options.from_seq ?? last + 1; ; ) {
      if (signal.aborted || (!follow && next > last)) return;
      if (kernel.closed) throw new SvcError('daemon_stopping');
      const written = elsewhere.last_seq;
      if (next > written) {
        await watch.next(signal);
        continue;
      }
      let live = fromMemory(sources, form, next);
      const wait = live?.events.some(wanted) ? ready?.() : undefined;
      if (wait !== undefined) {
        await wait;
        live = fromMemory(sources, form, next) ?? live;
      }
      const page = live ?? (await fromStore(sources, form, next));
      // Events that the log has no more leave nothing to read.
      if (page === null) {
        next = written + 1;
        continue;
      }
      next = (page.events.at(-1)?.seq ?? next) + 1;
      const events = page.events.filter(wanted);
      if (events.length > 0) yield { page, events };
    }
  } finally {
    watch.end();
    leaveTail();
    leavePages();
  }
}

function fromMemory<B extends Sized>(
  { kernel, tail, pages }: LogSources,
  form: PageForm<B>,
  from_seq: number,
): EventPage<B> | null {
  const events = tail.read(from_seq, PAGE);
  return events === null || events.length === 0
    ? null
    : pages.make(LOG, `live ${from_seq} ${events.length}`, form, () =>
        events.map((event) => whole(kernel, event)),
      );
}

/** The name of the whole log among the streams. */
const LOG = 'log';

/** A store that was closed meanwhile has not failed. */
async function fromStore<B extends Sized>(
  { kernel, store, pages }: LogSources,
  form: PageForm<B>,
  from_seq: number,
): Promise<EventPage<B> | null> {
  try {
    return await pages.read(LOG, String(from_seq), form, async () =>
      (await store.readAll(from_seq, PAGE)).map((event) => whole(kernel, event)),
    );
  } catch (error) {
    if (kernel.closed) throw new SvcError('daemon_stopping');
    throw error;
  }
}

function whole(kernel: Kernel, event: StoredEvent): StoredEvent {
  return withText(event, answerOf(kernel.instances.get(event.stream))) ?? event;
}
