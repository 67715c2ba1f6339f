/**
 * Whose turn it is to write to a client. It owns how much all clients together are written in one turn of the event loop.
 *
 * A write copies the bytes to the system at once, and the event loop accepts one new connection a turn. Without a bound, one event for
 * a thousand followers delays `/livez` by a thousand writes for each connection that is ahead of it.
 *
 * 1. One turn of the event loop lets go `TURN_BYTES`, and at least one write. A small write counts as `WRITE_BYTES`, which it costs.
 * 2. The first to ask is the first to write. A write is granted at once while nothing waits and the turn has bytes left.
 * 3. A turn that took a new connection lets go nothing, since more connections may wait. At most `WAYS_GIVEN` turns in a row do so.
 * 4. Each stream and request waits for one turn at most, so that what waits is bounded by the connections.
 */
export class Turns {
  private readonly nextTurn: (serve: () => void) => void;
  private readonly waiting: { cost: number; go: () => void }[] = [];
  private left = TURN_BYTES;
  private isSet = false;
  /** Whether this turn took a connection. */
  private isBusy = false;
  private waysGiven = 0;

  constructor(nextTurn: (serve: () => void) => void = setImmediate) {
    this.nextTurn = nextTurn;
  }

  /** Resolves when so many bytes may be written; undefined when they may be at once. */
  take(bytes: number): Promise<void> | undefined {
    const cost = Math.max(bytes, WRITE_BYTES);
    this.set();
    if (this.waiting.length > 0 || this.left <= 0)
      return new Promise((go) => this.waiting.push({ cost, go }));
    this.left -= cost;
    return undefined;
  }

  /** A new connection was taken, and more may wait for the event loop. */
  giveWay(): void {
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
    const givesWay = this.isBusy && this.waysGiven < WAYS_GIVEN;
    this.isSet = false;
    this.isBusy = false;
    this.waysGiven = givesWay ? this.waysGiven + 1 : 0;
    this.left = givesWay ? 0 : TURN_BYTES;
    let served = 0;
    for (const { cost, go } of this.waiting) {
      if (this.left <= 0) break;
      this.left -= cost;
      served += 1;
      go();
    }
    this.waiting.splice(0, served);
    // What was let go is written in this turn, and the bytes come back in the next one.
    if (served > 0 || this.waiting.length > 0) this.set();
  }
}

/** The system takes about a millisecond for it. */
export const TURN_BYTES = 256 * 1024;
/** A small write takes the system as long as a copy of so many bytes. */
export const WRITE_BYTES = 16 * 1024;
/** A connection takes a third of a millisecond, so that streams keep a third of the time while connections flood in. */
export const WAYS_GIVEN = 7;
