import { Notifier } from '../async/notifier.ts';
import type { Kernel } from './kernel.ts';
import type { StreamKey } from './stream.ts';

/** Events that other kernels append to a shared log. Followers read it from the store. */
export interface Elsewhere {
  /** Position of the last event of the log, as far as it is known here. */
  readonly last_seq: number;
  /** The same, asked from the log now. Throws store_stalled. */
  lastSeq(): Promise<number>;
  /** News of one stream or of the whole log from now on. */
  watch(topic: StreamKey | 'all'): Watch;
}

/** Remembers news that come between two calls of `next`, so that a reader misses none. */
export interface Watch {
  /**
   * Resolves when there may be more events than at the last call. Also when the signal aborts, or
   * the kernel closes. False: the store has all events that will ever come.
   */
  next(signal?: AbortSignal): Promise<boolean>;
  end(): void;
}

/** The kernel is the only writer of the log: a stream that it does not have gets no more events. */
export class NobodyElse implements Elsewhere {
  private readonly kernel: Pick<Kernel, 'durableSeq'>;
  private readonly changed = new Notifier();

  constructor(kernel: Pick<Kernel, 'durableSeq' | 'subscribe'>) {
    this.kernel = kernel;
    kernel.subscribe('all', () => this.changed.notify());
  }

  get last_seq(): number {
    return this.kernel.durableSeq;
  }

  async lastSeq(): Promise<number> {
    return this.last_seq;
  }

  watch(topic: StreamKey | 'all'): Watch {
    const next = async (signal?: AbortSignal) => {
      if (topic !== 'all') return false;
      await this.changed.next(signal);
      return true;
    };
    return { next, end: () => {} };
  }
}
