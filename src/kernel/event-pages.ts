import { createGate } from '../async/gate.ts';
import { ShortLived } from '../async/short-lived.ts';
import { sizeInMemory } from './instance.ts';
import type { StoredEvent } from './store/port.ts';

/** Pages read from the store at one time, for all followers together. */
const READS = 4;
/** What a page takes beside its bytes. */
const PAGE_OVERHEAD = 1024;

/**
 * The pages of events that followers are being sent, so that those at the same place share one.
 *
 * 1. A page that many followers need is read once, and its body is made once a form.
 * 2. The kept pages are bounded by their bytes; the least recently used one goes first.
 * 3. A page is kept only for other followers of its stream: most runs have one follower, which asks
 *    once. With the last of them the pages of the stream go.
 * 4. Few pages are read at a time; a follower that waits for its turn holds nothing.
 */
export class EventPages {
  private readonly bytes_max: number;
  private readonly gate = createGate(READS);
  /** Least recently used first. */
  private readonly pages = new Map<string, Kept>();
  private readonly streams = new ShortLived<string, Followed>();
  private readonly reading = new Map<string, Promise<EventPage<Sized> | null>>();
  private bytes = 0;
  /** Clients that are being sent events. */
  followers = 0;

  constructor(bytes_max: number) {
    this.bytes_max = bytes_max;
  }

  /** One more follower of a stream; returns the function that it calls when it leaves. */
  enter(stream: string): () => void {
    const followed = this.streams.get(stream) ?? { followers: 0, keys: null };
    this.streams.set(stream, followed);
    followed.followers += 1;
    this.followers += 1;
    return () => {
      followed.followers -= 1;
      this.followers -= 1;
      if (followed.followers > 0) return;
      this.streams.delete(stream);
      for (const key of followed.keys ?? []) this.drop(key);
    };
  }

  /** Drops all pages: the next ones are read from the log. */
  forget(): void {
    for (const key of [...this.pages.keys()]) this.drop(key);
  }

  /** The page of a stream from this place on, made now from events that are in memory. */
  make<B extends Sized>(
    stream: string,
    place: string,
    form: PageForm<B>,
    events: () => readonly StoredEvent[],
  ): EventPage<B> {
    const followed = this.streams.get(stream);
    if (followed === undefined || followed.followers < 2) return new EventPage(events(), form);
    const key = keyOf(stream, place, form);
    return this.find<B>(key) ?? this.keep(followed, key, new EventPage(events(), form));
  }

  /** The same, read from the store; null when there are no such events. */
  async read<B extends Sized>(
    stream: string,
    place: string,
    form: PageForm<B>,
    read: () => Promise<readonly StoredEvent[]>,
  ): Promise<EventPage<B> | null> {
    const key = keyOf(stream, place, form);
    const kept = this.find<B>(key);
    if (kept !== undefined) return kept;
    const present = this.reading.get(key) as Promise<EventPage<B> | null> | undefined;
    if (present !== undefined) return present;
    const reading = this.gate(async () => {
      const events = await read();
      if (events.length === 0) return null;
      return this.keep(this.streams.get(stream), key, new EventPage(events, form));
    }).finally(() => this.reading.delete(key));
    this.reading.set(key, reading);
    return reading;
  }

  /** A key has the name of its form. */
  private find<B extends Sized>(key: string): EventPage<B> | undefined {
    const kept = this.pages.get(key);
    if (kept === undefined) return undefined;
    this.pages.delete(key);
    this.pages.set(key, kept);
    return kept.page as EventPage<B>;
  }

  private keep<B extends Sized>(
    followed: Followed | undefined,
    key: string,
    page: EventPage<B>,
  ): EventPage<B> {
    const before = this.pages.get(key);
    if (before !== undefined) return before.page as EventPage<B>;
    if (followed === undefined || followed.followers < 2) return page;
    this.pages.set(key, { page, followed });
    followed.keys ??= new Set();
    followed.keys.add(key);
    this.bytes += page.size + PAGE_OVERHEAD;
    page.onMade = (more) => {
      if (this.pages.get(key)?.page !== (page as unknown)) return;
      this.bytes += more;
      this.trim();
    };
    this.trim();
    return page;
  }

  private trim(): void {
    for (const oldest of this.pages.keys()) {
      if (this.bytes <= this.bytes_max) break;
      this.drop(oldest);
    }
  }

  private drop(key: string): void {
    const kept = this.pages.get(key);
    if (kept === undefined) return;
    this.pages.delete(key);
    kept.followed.keys?.delete(key);
    this.bytes -= kept.page.size + PAGE_OVERHEAD;
  }
}

function keyOf(stream: string, place: string, { name }: PageForm<Sized>): string {
  return `${stream} ${place} ${name}`;
}

/** The followers of one stream, and the keys of the pages that are kept for them. */
interface Followed {
  followers: number;
  keys: Set<string> | null;
}

interface Kept {
  page: EventPage<Sized>;
  followed: Followed;
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

/** The form in which followers use events, such as the bytes that they send. */
export interface PageForm<B extends Sized> {
  /** Followers with the same form share the body of a page. */
  readonly name: string;
  /** Called once a page, with the events in order and their approximate bytes in memory. */
  make(events: readonly StoredEvent[], size: number): B;
}

/** Approximate bytes of the body in memory. */
export interface Sized {
  readonly size: number;
}

/** What one follower gets at one time: some events of a page, in order. */
export interface EventSlice<B> {
  readonly page: { readonly body: B };
  readonly events: readonly PagedEvent[];
}

/**
 * Events that follow each other, in the form that their followers use. The body is made when the
 * first follower needs it, and all of them share it. The stored events go then, unless it has them.
 */
export class EventPage<B extends Sized> {
  readonly events: readonly PagedEvent[];
  /** Called with the change of `size` when the body is made. */
  onMade: (more: number) => void = () => {};
  /** Approximate bytes of the page in memory. */
  size: number;
  private content: { stored: readonly StoredEvent[]; form: PageForm<B> } | { body: B };

  constructor(stored: readonly StoredEvent[], form: PageForm<B>) {
    this.events = stored.map(({ seq, stream, version, type }, index) => {
      return { seq, stream, version, type, index };
    });
    this.size = stored.reduce((sum, { data }) => sum + sizeInMemory(data), 0);
    this.content = { stored, form };
  }

  get body(): B {
    if ('body' in this.content) return this.content.body;
    const body = this.content.form.make(this.content.stored, this.size);
    const more = body.size - this.size;
    this.content = { body };
    this.size = body.size;
    this.onMade(more);
    return body;
  }
}
