import type { Pending } from './committer.ts';
import type { Instance } from './instance.ts';

/**
 * Makes durable events visible, in the order of the log. It owns the events that are durable and
 * not visible yet.
 *
 * 1. An append becomes visible whole, in one turn of the event loop. Its caller continues after
 *    that turn.
 * 2. One turn publishes `publish_events`, and at least one append. The rest follows in the next
 *    turns, so a large commit does not keep clients waiting.
 * 3. A later commit comes behind what still waits.
 */
export class Publisher {
  /** Position of the last visible event. */
  seq = 0;
  private readonly options: PublisherOptions;
  private waiting: readonly Pending[] = [];
  private isSet = false;

  constructor(options: PublisherOptions) {
    this.options = options;
  }

  /** Durable events that are not visible yet. */
  get backlog(): number {
    return this.waiting.length;
  }

  /** Takes the events of the next durable commit. The first ones are visible at once. */
  add(items: readonly Pending[]): void {
    this.waiting = this.waiting.length === 0 ? items : [...this.waiting, ...items];
    if (!this.isSet) this.publish();
  }

  private publish(): void {
    const { publish_events, show, shown } = this.options;
    const end = wholeAppends(this.waiting, publish_events);
    const items = this.waiting.slice(0, end);
    this.waiting = this.waiting.slice(end);
    this.isSet = this.waiting.length > 0;
    if (this.isSet) setImmediate(() => this.publish());
    for (const item of items) {
      this.seq = item.event.seq;
      show(item);
    }
    for (const instance of new Set(items.map((item) => item.instance))) shown(instance);
    for (const { settle } of items) settle?.resolve();
  }
}

export interface PublisherOptions {
  /** Events that one turn makes visible. */
  publish_events: number;
  /** Makes one event visible. */
  show(item: Pending): void;
  /** All events of this turn are visible, and this instance has some of them. */
  shown(instance: Instance): void;
}

/** How many items are `limit` events, and the rest of the last append. */
export function wholeAppends(items: readonly Pending[], limit: number): number {
  let size = Math.min(items.length, limit);
  while (items[size - 1]?.settle === null) size += 1;
  return size;
}
