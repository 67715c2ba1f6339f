import type { Clock } from '../../async/clock.ts';

/**
 * Records the progress texts of a call's server at a bounded rate.
 *
 * 1. The first text is recorded at once, and then the newest one at each time.
 * 2. The time between two grows with the call, so that a call of a day has about two hundred.
 * 3. The last text is recorded before the end of the call.
 */
export class Reporter {
  private readonly clock: Clock;
  private readonly least_ms: number;
  private readonly record: (text: string) => Promise<unknown>;
  private readonly begun: number;
  private next = 0;
  private last = '';
  private newest: string | null = null;
  private cancel: (() => void) | null = null;

  constructor(clock: Clock, least_ms: number, record: (text: string) => Promise<unknown>) {
    this.clock = clock;
    this.least_ms = least_ms;
    this.record = record;
    this.begun = clock.now();
  }

  readonly take = (text: string): void => {
    this.newest = text;
    const wait = this.next - this.clock.now();
    if (wait <= 0) void this.flush();
    else this.cancel ??= this.clock.after(wait, () => void this.flush());
  };

  /** Records the newest text, if it is not yet. Nothing is recorded by itself after it. */
  async flush(): Promise<void> {
    this.cancel?.();
    this.cancel = null;
    const { newest, last } = this;
    this.newest = null;
    if (newest === null || newest === last) return;
    this.last = newest;
    const now = this.clock.now();
    this.next = now + Math.max(this.least_ms, (now - this.begun) / 20);
    await this.record(newest);
  }
}
