/**
 * Tells how far something came, at most once in `every_ms`, and also when nothing moves any more: the last word is never older
 * than that. A telling that fails is thrown at the next step.
 */
export class Pace {
  private readonly every_ms: number;
  private readonly call: (bytes: number) => Promise<void>;
  private readonly timer: NodeJS.Timeout;
  private bytes: number;
  private told: number;
  private last = performance.now();
  private busy = false;
  private failure: { thrown: unknown } | null = null;

  constructor(every_ms: number, bytes: number, call: (bytes: number) => Promise<void>) {
    this.every_ms = every_ms;
    this.call = call;
    this.bytes = bytes;
    this.told = bytes;
    this.timer = setInterval(
      () => this.tell().catch((thrown: unknown) => this.fail(thrown)),
      every_ms,
    );
  }

  /** It came so far. Waits for the telling where one is due. */
  async at(bytes: number): Promise<void> {
    this.bytes = bytes;
    if (this.failure !== null) throw this.failure.thrown;
    if (performance.now() - this.last >= this.every_ms) await this.tell();
  }

  stop(): void {
    clearInterval(this.timer);
  }

  private async tell(): Promise<void> {
    if (this.busy || this.told === this.bytes) return;
    this.busy = true;
    this.told = this.bytes;
    try {
      await this.call(this.told);
    } finally {
      this.busy = false;
      this.last = performance.now();
    }
  }

  private fail(thrown: unknown): void {
    this.failure = { thrown };
  }
}
