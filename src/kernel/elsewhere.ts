import type { StreamKey } from './stream.ts';

/** What other kernels append to a shared log. Followers read it from the store. */
export interface Elsewhere {
  /** Position of the last event of the log, as far as it is known here. */
  readonly last_seq: number;
  /** The same, asked from the log now. */
  lastSeq(): Promise<number>;
  /** News of one stream or of the whole log from now on. */
  watch(topic: StreamKey | 'all'): Watch;
}

/** Remembers news that come between two calls of `next`, so that a reader misses none. */
export interface Watch {
  /**
   * Resolves when there may be more events than at the last call. Also when the signal aborts, or
   * the kernel closes.
   */
  next(signal?: AbortSignal): Promise<void>;
  end(): void;
}
