import type { StoredEvent } from '../store/port.ts';
import { textLength } from './instance.ts';

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
  /** Called once a page, with the events in order and about what they take in memory. */
  make(events: readonly StoredEvent[], size: number): B;
}

/** About what the body takes in memory. */
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
  /** About what the page takes in memory. */
  size: number;
  private content: { stored: readonly StoredEvent[]; form: PageForm<B> } | { body: B };

  constructor(stored: readonly StoredEvent[], form: PageForm<B>) {
    this.events = stored.map(({ seq, stream, version, type }, index) => {
      return { seq, stream, version, type, index };
    });
    this.size = stored.reduce((sum, { data }) => sum + textLength(data), 0);
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
