/**
 * Reports progress at most once in `everyMs`, also while no bytes arrive.
 *
 * 1. As long as there is progress, a report begins `everyMs` after the last one began. One that
 *    takes longer, as on a busy disk, is followed at once.
 * 2. One report runs at a time. If it fails, the next call of `update` throws its error.
 */
export class Throttle {
  private readonly everyMs: number;
  private readonly report: (bytes: number) => Promise<void>;
  private readonly now: () => number;
  private readonly timer: NodeJS.Timeout;
  private bytes: number;
  private reported: number;
  /** When the last report began. */
  private last: number;
  private busy = false;
  private failure: { thrown: unknown } | null = null;

  constructor(
    everyMs: number,
    bytes: number,
    report: (bytes: number) => Promise<void>,
    now = () => performance.now(),
  ) {
    this.everyMs = everyMs;
    this.now = now;
    this.last = now();
    this.report = report;
    this.bytes = bytes;
    this.reported = bytes;
    this.timer = setInterval(() => {
      this.flush().catch((thrown: unknown) => {
        this.failure = { thrown };
      });
    }, everyMs);
  }

  /** Sets the progress. Waits for the report if one is due. */
  async update(bytes: number): Promise<void> {
    this.bytes = bytes;
    if (this.failure !== null) throw this.failure.thrown;
    if (this.now() - this.last >= this.everyMs) await this.flush();
  }

  stop(): void {
    clearInterval(this.timer);
  }

  private async flush(): Promise<void> {
    if (this.busy || this.reported === this.bytes) return;
    this.busy = true;
    this.last = this.now();
    this.reported = this.bytes;
    try {
      await this.report(this.reported);
    } finally {
      this.busy = false;
    }
  }
}
