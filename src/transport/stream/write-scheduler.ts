/**
 * Schedules writes to clients. It owns how much all clients together write in one turn of the event
 * loop.
 *
 * A write copies its bytes to the system at once. The event loop accepts one new connection a turn.
 * Without a bound, one event for a thousand followers delays `/livez` by a thousand writes.
 *
 * 1. One turn writes `TURN_BYTES`, and at least one write. A small write counts as `WRITE_BYTES`,
 *    which it costs.
 * 2. Writes run in order of arrival. A write runs at once while none waits and the turn has bytes
 *    left.
 * 3. A turn that accepted a connection writes nothing, since more connections may wait. A burst of
 *    `SKIPPED_TURNS_MAX` connections is accepted so. In a flood without end, one turn in
 *    `EARNED_TURNS` + 1 writes.
 * 4. Each stream and request has at most one waiting write, so the connections bound the queue.
 */
export class WriteScheduler {
  private readonly nextTurn: (serve: () => void) => void;
  private readonly waiting: { cost: number; go: () => void }[] = [];
  /** Grows with each turn. */
  turn = 0;
  private left = TURN_BYTES;
  private isSet = false;
  /** True if this turn accepted a connection. */
  private isBusy = false;
  /** Turns that may still be skipped although writes wait. */
  private skippable = SKIPPED_TURNS_MAX;

  constructor(nextTurn: (serve: () => void) => void = setImmediate) {
    this.nextTurn = nextTurn;
  }

  /** Resolves when the bytes may be written; undefined when they may be at once. */
  take(bytes: number): Promise<void> | undefined {
    const cost = Math.max(bytes, WRITE_BYTES);
    this.set();
    if (this.waiting.length > 0 || this.left <= 0)
      return new Promise((go) => this.waiting.push({ cost, go }));
    this.left -= cost;
    return undefined;
  }

  /** A write that has its turn has so many bytes more. */
  add(bytes: number): void {
    this.left -= Math.max(0, bytes);
  }

  /** A connection was accepted, and more may wait for the event loop. */
  skipTurn(): void {
    this.isBusy = true;
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
    const skips = this.isBusy && (!delays || this.skippable > 0);
    this.isSet = false;
    this.isBusy = false;
    if (!skips) this.skippable = Math.min(SKIPPED_TURNS_MAX, this.skippable + EARNED_TURNS);
    else if (delays) this.skippable -= 1;
    this.left = skips ? 0 : TURN_BYTES;
    let served = 0;
    for (const { cost, go } of this.waiting) {
      if (this.left <= 0) break;
      this.left -= cost;
      served += 1;
      go();
    }
    this.waiting.splice(0, served);
    // This turn writes what was released. The bytes come back in the next one.
    if (served > 0 || this.waiting.length > 0) this.set();
  }
}

/**
 * The writes of one connection. One may wait before its bytes are known, and has all that are there
 * by then. It runs in the turn that it waited for. Later, it waits again.
 */
export class Writes {
  private readonly scheduler: WriteScheduler;
  private reserved = -1;

  constructor(scheduler: WriteScheduler) {
    this.scheduler = scheduler;
  }

  /** Resolves when the next write may run, whose bytes are not known; undefined when it may now. */
  reserve(): Promise<void> | undefined {
    const wait = this.scheduler.take(0);
    if (wait !== undefined) return wait.then(() => this.granted());
    this.granted();
    return undefined;
  }

  /** The same for a write of so many bytes. */
  take(bytes: number): Promise<void> | undefined {
    const isReserved = this.reserved === this.scheduler.turn;
    this.reserved = -1;
    if (!isReserved) return this.scheduler.take(bytes);
    this.scheduler.add(bytes - WRITE_BYTES);
    return undefined;
  }

  private granted(): void {
    this.reserved = this.scheduler.turn;
  }
}

/** The system takes about a millisecond for it. */
export const TURN_BYTES = 256 * 1024;
/** A large answer is written in pieces of so many bytes. */
export const PIECE_BYTES = 64 * 1024;
/** A small write costs the system as much as a copy of so many bytes. */
export const WRITE_BYTES = 16 * 1024;
/**
 * Accepting takes at most a fifth of a millisecond. So a burst of connections delays streams by a
 * fifth of a second at most.
 */
export const SKIPPED_TURNS_MAX = 1024;
/** Streams keep a third of the time in a flood of connections: a turn that writes takes longer. */
export const EARNED_TURNS = 7;
