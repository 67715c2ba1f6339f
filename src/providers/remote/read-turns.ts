/**
 * Schedules the reading of answers. It owns how much of all answers together is read in one turn of
 * the event loop.
 *
 * Hundreds of providers may send at one time. Without a bound, a turn reads from each of them, and
 * everything else waits for that.
 *
 * 1. One turn reads `TURN_BYTES`, and at least one piece. A small piece counts as `READ_BYTES`.
 * 2. Pieces are read in order of arrival. A piece is read at once while none waits and the turn has
 *    bytes left.
 * 3. Each answer has at most one piece that waits, so the attempts bound the queue.
 */
export class ReadTurns {
  private readonly nextTurn: (serve: () => void) => void;
  private waiting: { cost: number; go: () => void }[] = [];
  private left = TURN_BYTES;
  private isSet = false;

  constructor(nextTurn: (serve: () => void) => void = setImmediate) {
    this.nextTurn = nextTurn;
  }

  /** Resolves when a piece of so many bytes may be read; undefined when it may be at once. */
  take(bytes: number): Promise<void> | undefined {
    const cost = Math.max(bytes, READ_BYTES);
    this.set();
    if (this.waiting.length > 0 || this.left <= 0)
      return new Promise((go) => this.waiting.push({ cost, go }));
    this.left -= cost;
    return undefined;
  }

  private set(): void {
    if (this.isSet) return;
    this.isSet = true;
    this.nextTurn(() => this.serve());
  }

  private serve(): void {
    this.isSet = false;
    this.left = TURN_BYTES;
    let served = 0;
    for (const { cost, go } of this.waiting) {
      if (this.left <= 0) break;
      this.left -= cost;
      served += 1;
      go();
    }
    this.waiting = this.waiting.slice(served);
    if (served > 0) this.set();
  }
}

/** Some milliseconds. In less, answers that come together would need several commits. */
export const TURN_BYTES = 256 * 1024;
/** What follows from a small piece takes as long as the bytes of a larger one. */
export const READ_BYTES = 4 * 1024;
