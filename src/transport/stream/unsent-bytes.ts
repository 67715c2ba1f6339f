import { createGate } from '../../async/gate.ts';
import { ShortLived } from '../../async/short-lived.ts';
import { TurnBudget } from '../../async/turn-budget.ts';
import { RETRY_AFTER_MS, SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import type { Log } from '../../ports/log.ts';

/** Bytes that several connections may share. Only the budget changes `holders`. */
export interface SharedBytes {
  readonly size: number;
  holders: number;
}

/** The unsent bytes of one connection. */
export interface Outflow {
  /** Counts shared bytes until they are released, or the connection leaves. */
  hold(shared: SharedBytes): void;
  release(shared: SharedBytes): void;
  /** Sets the connection's own bytes. */
  setOwnBytes(bytes: number): void;
  /**
   * Resolves when the bytes may be written; undefined when they may be at once. The connection may
   * have closed by then.
   */
  turn(bytes: number): Promise<void> | undefined;
  /** Reserves a turn before the size of the write is known. */
  reserve(): Promise<void> | undefined;
  /** Ends the count of the connection. */
  leave(): void;
}

/**
 * The one budget for unsent bytes: HTTP answers and streams, WebSockets and the local socket.
 *
 * 1. `bytes` is the sum over all connections. Bytes that several of them share count once.
 * 2. Over the bound, connections are closed until the sum fits. The one with most bytes for the
 *    longest time goes first.
 * 3. From three quarters of the bound, new answers are refused as busy, so that readers can finish.
 * 4. A connection that has left counts nothing, even if bytes are released later.
 * 5. All connections take turns to write, so that none of them delays a new one by more than a
 *    turn.
 */
export class UnsentBytes {
  bytes = 0;
  /**
   * Bytes that all clients together write in one turn. A write copies its bytes to the system at
   * once, and the event loop accepts one new connection a turn. Without a bound, one event for a
   * thousand followers delays `/livez` by a thousand writes. A turn that accepted a connection is
   * skipped, since more connections may wait.
   */
  readonly writes = new TurnBudget({ turn_bytes: TURN_BYTES, work_bytes: WRITE_BYTES });
  private readonly bytes_max: number;
  private readonly log: Log;
  private readonly now: () => number;
  private readonly connections = new ShortLived<string, Counted>();
  private entered = 0;
  private readonly wholeAnswers = createGate(WHOLE_ANSWERS);
  private closedCount = 0;
  private nextLogAt = Number.NEGATIVE_INFINITY;

  constructor(
    { unsent_bytes }: Pick<Limits, 'unsent_bytes'>,
    log: Log,
    now = () => performance.now(),
  ) {
    this.bytes_max = unsent_bytes;
    this.log = log;
    this.now = now;
  }

  /**
   * Makes an answer in memory, such as the record of a run, and counts it. Only a few are made at
   * one time. Otherwise many requests would read their records before the first one counts. Throws
   * busy when too much is unsent.
   */
  makeWhole<T>(make: () => Promise<T>): Promise<T> {
    return this.wholeAnswers(async () => {
      // The store's thread answers many requests in one turn, and all answers would be made in it.
      await this.writes.take(TURN_BYTES);
      this.admit();
      return make();
    });
  }

  /** Throws busy when too much is unsent for one more answer. */
  admit(): void {
    if (this.bytes < this.bytes_max * ADMIT_SHARE) return;
    throw new SvcError(
      'busy',
      `Clients have ${this.bytes} unread bytes in the daemon, which is close to the bound.`,
      {
        details: { retry_after_ms: RETRY_AFTER_MS },
        hint: 'Read or close the open streams, then try again. Or raise the limit unsent_bytes.',
      },
    );
  }

  /** Counts a connection. `cut` closes it at once, and frees its bytes. */
  enter(cut: () => void): Outflow {
    this.entered += 1;
    const name = `connection ${this.entered}`;
    const connection: Counted = { name, shared: new Map(), own: 0, since: this.now(), cut };
    this.connections.set(name, connection);
    const writes = new Writes(this.writes);
    return {
      hold: (shared) => this.hold(connection, shared),
      release: (shared) => this.release(connection, shared),
      setOwnBytes: (bytes) => this.own(connection, bytes),
      turn: (bytes) => writes.take(bytes),
      reserve: () => writes.reserve(),
      leave: () => this.leave(connection),
    };
  }

  private hold(connection: Counted, shared: SharedBytes): void {
    if (!this.connections.has(connection.name)) return;
    const times = connection.shared.get(shared) ?? 0;
    connection.shared.set(shared, times + 1);
    if (times > 0) return;
    if (connection.shared.size === 1 && connection.own === 0) connection.since = this.now();
    shared.holders += 1;
    if (shared.holders === 1) this.add(shared.size);
  }

  private release(connection: Counted, shared: SharedBytes): void {
    const times = connection.shared.get(shared);
    if (times === undefined) return;
    if (times > 1) connection.shared.set(shared, times - 1);
    else this.drop(connection, shared);
  }

  private own(connection: Counted, bytes: number): void {
    if (!this.connections.has(connection.name)) return;
    if (bytes < connection.own || connection.own + connection.shared.size === 0)
      connection.since = this.now();
    const more = bytes - connection.own;
    connection.own = bytes;
    this.add(more);
  }

  private leave(connection: Counted): void {
    if (!this.connections.delete(connection.name)) return;
    for (const shared of connection.shared.keys()) this.drop(connection, shared);
    this.bytes -= connection.own;
    connection.own = 0;
  }

  private drop(connection: Counted, shared: SharedBytes): void {
    connection.shared.delete(shared);
    shared.holders -= 1;
    if (shared.holders === 0) this.bytes -= shared.size;
  }

  private add(bytes: number): void {
    this.bytes += bytes;
    while (this.bytes > this.bytes_max) {
      const heaviest = this.heaviest();
      if (heaviest === null) return;
      this.leave(heaviest);
      heaviest.cut();
      this.logClosed();
    }
  }

  /** The connection with most bytes for the longest time. Its part of shared bytes counts. */
  private heaviest(): Counted | null {
    const now = this.now();
    let [found, most]: [Counted | null, number] = [null, 0];
    for (const connection of this.connections.values()) {
      let bytes = connection.own;
      for (const { size, holders } of connection.shared.keys()) bytes += size / holders;
      const weight = bytes * (1 + now - connection.since);
      if (weight > most) [found, most] = [connection, weight];
    }
    return found;
  }

  /** One log line for all connections that were closed within a second. */
  private logClosed(): void {
    this.closedCount += 1;
    if (this.now() < this.nextLogAt) return;
    this.nextLogAt = this.now() + LOG_EVERY_MS;
    this.log.warn(
      { connections: this.closedCount, unsent_bytes: this.bytes_max },
      'clients that did not read were disconnected: too many bytes were unsent',
    );
    this.closedCount = 0;
  }
}

/**
 * The writes of one connection. One may wait before its bytes are known, and has all that are there
 * by then. It runs in the turn that it waited for. Later, it waits again.
 */
export class Writes {
  private readonly budget: TurnBudget;
  private reserved = -1;

  constructor(budget: TurnBudget) {
    this.budget = budget;
  }

  /** Resolves when the next write may run, whose bytes are not known; undefined when it may now. */
  reserve(): Promise<void> | undefined {
    const wait = this.budget.take(0);
    if (wait !== undefined) return wait.then(() => this.grantTurn());
    this.grantTurn();
    return undefined;
  }

  /** The same for a write of so many bytes. */
  take(bytes: number): Promise<void> | undefined {
    const isReserved = this.reserved === this.budget.turn;
    this.reserved = -1;
    if (!isReserved) return this.budget.take(bytes);
    this.budget.add(bytes - this.budget.work_bytes);
    return undefined;
  }

  private grantTurn(): void {
    this.reserved = this.budget.turn;
  }
}

interface Counted {
  name: string;
  /** How often the connection uses each. */
  shared: Map<SharedBytes, number>;
  own: number;
  /** Since when it has unsent bytes. */
  since: number;
  cut: () => void;
}

const ADMIT_SHARE = 0.75;
const LOG_EVERY_MS = 1000;
/** Answers in memory that are made at one time. */
const WHOLE_ANSWERS = 4;
/** The system takes about a millisecond for it. */
export const TURN_BYTES = 256 * 1024;
/** A large answer is written in pieces of so many bytes. */
export const PIECE_BYTES = 64 * 1024;
/** A small write costs the system as much as a copy of so many bytes. */
export const WRITE_BYTES = 16 * 1024;
