import type { SvcError } from '../errors.ts';
import type { Clock } from './clock.ts';
import { Notifier } from './notifier.ts';
import type { Log } from './port.ts';

/**
 * Whether the disk takes commits, and why not. It owns the cause of a stall and the time it began.
 *
 * 1. A stall begins with its first cause, and ends with the next durable commit.
 * 2. Listeners hear of each cause once: store_full (the disk is full) or store_stalled (a commit is
 *    late).
 */
export class Stalls {
  cause: SvcError | null = null;
  began_at = 0;
  private readonly clock: Clock;
  private readonly log: Log;
  private readonly stalled = new Notifier<SvcError>();
  private readonly resumed = new Notifier();
  private readonly reserve = new Notifier<boolean>();

  constructor({ clock, log }: { clock: Clock; log: Log }) {
    this.clock = clock;
    this.log = log;
  }

  /** Returns a function that ends it. */
  onStall(listener: (cause: SvcError) => void, signal?: AbortSignal): () => void {
    return this.stalled.subscribe(listener, signal);
  }

  onResume(listener: () => void, signal?: AbortSignal): void {
    this.resumed.subscribe(listener, signal);
  }

  /**
   * Calls with true when a commit has used the reserve, and with false when the reserve is back.
   */
  onReserve(listener: (isUsed: boolean) => void, signal?: AbortSignal): void {
    this.reserve.subscribe(listener, signal);
  }

  begin(cause: SvcError): void {
    const before = this.cause;
    this.cause = cause;
    if (before === null) this.began_at = this.clock.now();
    if (before?.code === cause.code) return;
    this.log.error({ code: cause.code }, cause.message);
    this.stalled.notify(cause);
  }

  end(): void {
    if (this.cause === null) return;
    this.cause = null;
    this.log.info(
      { stalled_ms: this.clock.now() - this.began_at },
      'the event log is written again',
    );
    this.resumed.notify();
  }

  reserveUsed(isUsed: boolean): void {
    this.reserve.notify(isUsed);
  }
}
