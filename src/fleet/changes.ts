import { Notifier } from '../async/notifier.ts';
import type { Elsewhere, Watch } from '../kernel/elsewhere.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { StreamKey } from '../kernel/stream.ts';
import type { Fleet, FleetChange } from './port.ts';

/**
 * What the nodes of a fleet append to their log. It owns the position that is known here, and those
 * who watch for more.
 *
 * 1. The position never goes back. Everything up to it is committed, so a reader finds it.
 * 2. A watcher misses nothing that comes after it began to watch, if notices are not lost.
 * 3. A lost notice is noticed by the next poll. Then everyone who watches reads again.
 */
export class Changes implements Elsewhere {
  last_seq = 0;
  private readonly fleet: Pick<Fleet, 'lastSeq'>;
  private readonly kernel: Kernel;
  private readonly watched = new Map<string, Set<Seen>>();

  constructor(fleet: Pick<Fleet, 'lastSeq'>, kernel: Kernel) {
    this.fleet = fleet;
    this.kernel = kernel;
    // The own commits are news too. Their notices may come later, or not at all.
    kernel.subscribe('all', ({ seq, stream }) => this.hear(seq, [stream]));
  }

  /** A notice of the fleet. */
  noteChange({ last_seq, streams }: Pick<FleetChange, 'last_seq' | 'streams'>): void {
    this.hear(last_seq, streams);
  }

  async lastSeq(): Promise<number> {
    this.noteLast(await this.fleet.lastSeq());
    return this.last_seq;
  }

  /** The last position of the log, as the database says. */
  noteLast(seq: number): void {
    if (seq > this.last_seq) this.hear(seq, 'all');
  }

  watch(topic: StreamKey | 'all'): Watch {
    const seen = new Seen(this.kernel);
    const watchers = this.watched.get(topic) ?? new Set();
    this.watched.set(topic, watchers.add(seen));
    return {
      next: (signal) => seen.next(signal),
      end: () => {
        watchers.delete(seen);
        if (watchers.size === 0 && this.watched.get(topic) === watchers) this.watched.delete(topic);
      },
    };
  }

  /** Everyone reads again, such as when the kernel closes. */
  wakeAll(): void {
    for (const topic of [...this.watched.keys()]) this.wake(topic);
  }

  private hear(seq: number, streams: FleetChange['streams']): void {
    this.last_seq = Math.max(this.last_seq, seq);
    if (streams === 'all') this.wakeAll();
    else if (streams.length > 0) for (const stream of [...streams, 'all']) this.wake(stream);
  }

  private wake(topic: string): void {
    for (const seen of this.watched.get(topic) ?? []) seen.notify();
  }
}

/** A listener for changes. */
class Seen {
  private readonly kernel: Kernel;
  private readonly changed = new Notifier();
  private isNew = false;

  constructor(kernel: Kernel) {
    this.kernel = kernel;
  }

  notify(): void {
    this.isNew = true;
    this.changed.notify();
  }

  async next(signal?: AbortSignal): Promise<boolean> {
    if (!this.isNew && !this.kernel.closed) await this.changed.next(signal);
    this.isNew = false;
    return true;
  }
}
