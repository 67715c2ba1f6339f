import type { SvcError } from '../errors.ts';
import type { Clock } from './clock.ts';
import type { Log } from './port.ts';

/**
 * Whether commits can be made, and why not: it owns the cause and its beginning.
 *
 * 1. A stall begins with its first cause, and ends with the next commit that is durable.
 * 2. Listeners learn of each cause once: store_full (the disk is full) or store_stalled (a commit is late).
 */
export class Stalls {
  cause: SvcError | null = null;
  began_at = 0;
  private readonly clock: Clock;
  private readonly log: Log;
  private readonly stalled = new Set<(cause: SvcError) => void>();
  private readonly resumed = new Set<() => void>();

  constructor({ clock, log }: { clock: Clock; log: Log }) {
    this.clock = clock;
    this.log = log;
  }

  onStall(listener: (cause: SvcError) => void): () => void {
    this.stalled.add(listener);
    return () => this.stalled.delete(listener);
  }

  onResume(listener: () => void): () => void {
    this.resumed.add(listener);
    return () => this.resumed.delete(listener);
  }

  begin(cause: SvcError): void {
    const before = this.cause;
    this.cause = cause;
    if (before === null) this.began_at = this.clock.now();
    if (before?.code === cause.code) return;
    this.log.error({ code: cause.code }, cause.message);
    for (const listener of this.stalled) listener(cause);
  }

  end(): void {
    if (this.cause === null) return;
    this.cause = null;
    this.log.info(
      { stalled_ms: this.clock.now() - this.began_at },
      'the event log is written again',
    );
    for (const listener of this.resumed) listener();
  }
}
