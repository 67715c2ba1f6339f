/**
 * How much work of one kind is done in one turn of the event loop, such as writes to clients.
 * Without a bound, everything else waits for what came at one time.
 *
 * 1. One turn does `turn_bytes`, and at least one work. A small work counts as `work_bytes`, which
 *    it costs.
 * 2. Works run in order of arrival. A work runs at once while none waits and the turn has bytes
 *    left.
 * 3. A turn that is skipped does nothing. A burst of `SKIPPED_TURNS_MAX` turns is skipped so. In a
 *    flood without end, one turn in `EARNED_TURNS` + 1 works.
 * 4. Each owner has at most one work that waits, so the owners bound the queue.
 */
export class TurnBudget {
  readonly turn_bytes: number;
  readonly work_bytes: number;
  /** Grows with each turn. */
  turn = 0;
  private readonly nextTurn: (serve: () => void) => void;
  private readonly waiting: { cost: number; go: () => void }[] = [];
  private left: number;
  private isSet = false;
  private isSkipped = false;
  /** Turns that may still be skipped although works wait. */
  private skippable = SKIPPED_TURNS_MAX;

  constructor(
    { turn_bytes, work_bytes }: Pick<TurnBudget, 'turn_bytes' | 'work_bytes'>,
    nextTurn: (serve: () => void) => void = setImmediate,
  ) {
    this.turn_bytes = turn_bytes;
    this.work_bytes = work_bytes;
    this.left = turn_bytes;
    this.nextTurn = nextTurn;
  }

  /** Resolves when a work of so many bytes may run; undefined when it may at once. */
  take(bytes: number): Promise<void> | undefined {
    const cost = Math.max(bytes, this.work_bytes);
    this.set();
    if (this.waiting.length > 0 || this.left <= 0)
      return new Promise((go) => this.waiting.push({ cost, go }));
    this.left -= cost;
    return undefined;
  }

  /** A work that has its turn has so many bytes more. */
  add(bytes: number): void {
    this.left -= Math.max(0, bytes);
  }

  /** The rest of this turn is left to the event loop, and the next one may be. */
  skipTurn(): void {
    this.isSkipped = true;
    this.left = 0;
    this.set();
  }

  private set(): void {
    if (this.isSet) return;
    this.isSet = true;
    this.nextTurn(() => this.serve());
  }

  private serve(): void {
    this.turn += 1;
    const delays = this.waiting.length > 0;
    const skips = this.isSkipped && (!delays || this.skippable > 0);
    this.isSet = false;
    this.isSkipped = false;
    if (!skips) this.skippable = Math.min(SKIPPED_TURNS_MAX, this.skippable + EARNED_TURNS);
    else if (delays) this.skippable -= 1;
    this.left = skips ? 0 : this.turn_bytes;
    let served = 0;
    for (const { cost, go } of this.waiting) {
      if (this.left <= 0) break;
      this.left -= cost;
      served += 1;
      go();
    }
    this.waiting.splice(0, served);
    // This turn does the released works. The bytes come back in the next turn.
    if (served > 0 || this.waiting.length > 0) this.set();
  }
}

/**
 * Accepting a connection takes at most a fifth of a millisecond. So a burst of connections delays
 * streams by a fifth of a second at most.
 */
export const SKIPPED_TURNS_MAX = 1024;
/** Streams keep a third of the time in a flood of connections: a turn that writes takes longer. */
export const EARNED_TURNS = 7;
