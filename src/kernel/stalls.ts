import type { Clock } from '../async/clock.ts';
import { Notifier } from '../async/notifier.ts';
import { SvcError } from '../errors.ts';
import type { Log } from '../ports/log.ts';

export interface StallsOptions {
  clock: Clock;
  log: Log;
  /** After which a call of the store is late. */
  late_ms: number;
  /** The database of the log, in messages. Null: a disk. */
  place: string | null;
}

/**
 * Whether the disk takes commits, and why not. It owns the cause of a stall and the time it began.
 *
 * 1. A stall begins with its first cause, and ends with the next durable commit. If a late read
 *    began it, it also ends when that read returns.
 * 2. Listeners hear of each cause once: store_full (the disk is full) or store_stalled (a call of
 *    the store is late).
 */
export class Stalls {
  cause: SvcError | null = null;
  began_at = 0;
  private readonly options: StallsOptions;
  private readonly stalled = new Notifier<SvcError>();
  private readonly resumed = new Notifier();
  private readonly reserve = new Notifier<boolean>();

  constructor(options: StallsOptions) {
    this.options = options;
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

  /** Begins a stall if this commit is late. */
  async watchCommit<T>(commit: Promise<T>): Promise<T> {
    const answered = this.whenLate((cause) => this.begin(cause));
    try {
      return await commit;
    } finally {
      answered();
    }
  }

  /** A late read begins a stall too, unless there is one. This one ends when the read returns. */
  async watchRead<T>(read: Promise<T>): Promise<T> {
    let own: SvcError | null = null;
    const answered = this.whenLate((cause) => {
      if (this.cause !== null) return;
      own = cause;
      this.begin(cause);
    });
    try {
      return await read;
    } finally {
      answered();
      if (own !== null && this.cause === own) this.end();
    }
  }

  private whenLate(listener: (cause: SvcError) => void): () => void {
    const { clock, late_ms } = this.options;
    return clock.after(late_ms, () => listener(this.late()));
  }

  begin(cause: SvcError): void {
    const before = this.cause;
    this.cause = cause;
    if (before === null) this.began_at = this.options.clock.now();
    if (before?.code === cause.code) return;
    this.options.log.error({ code: cause.code }, cause.message);
    this.stalled.notify(cause);
  }

  end(): void {
    if (this.cause === null) return;
    this.cause = null;
    this.options.log.info(
      { stalled_ms: this.options.clock.now() - this.began_at },
      'the event log is written again',
    );
    this.resumed.notify();
  }

  reserveUsed(isUsed: boolean): void {
    this.reserve.notify(isUsed);
  }

  private late(): SvcError {
    const { late_ms, place } = this.options;
    const who = place === null ? 'The disk' : `The database ${place}`;
    return new SvcError(
      'store_stalled',
      `${who} does not answer: the event log has waited for more than ${late_ms} ms.`,
      { details: { retry_after_ms: late_ms } },
    );
  }
}
