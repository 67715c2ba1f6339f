import { SvcError } from '../../errors.ts';
import { createGate } from '../../kernel/gate.ts';
import type { Log } from '../../kernel/port.ts';
import type { Limits } from '../../limits.ts';
import { TURN_BYTES, Turns } from './time-slices.ts';

/** Bytes that several connections may hold together. Only this budget changes `holders`. */
export interface SharedBytes {
  readonly size: number;
  holders: number;
}

/** What one connection has been given and has not sent yet. */
export interface Outflow {
  /** Counts shared bytes until they are released, or the connection leaves. */
  hold(shared: SharedBytes): void;
  release(shared: SharedBytes): void;
  /** Counts so many bytes of the connection's own, in place of those before. */
  own(bytes: number): void;
  /** Resolves when so many bytes may be written; undefined when they may be at once. The connection may have closed by then. */
  turn(bytes: number): Promise<void> | undefined;
  /** Nothing of the connection is held any more. */
  leave(): void;
}

/**
 * The one budget for what clients have not taken yet: HTTP answers and streams, WebSockets and the local socket.
 *
 * 1. `held` is the sum of what all connections hold. Bytes that several of them share count once.
 * 2. When `held` is over the bound, connections are cut until it is not: first the one that has held most for longest.
 * 3. New answers are refused as busy from three quarters of the bound on, so that those who read can finish.
 * 4. A connection that has left holds nothing, whatever is released later.
 * 5. All connections write by turns, so that no number of them delays a new one by more than a turn.
 */
export class UnsentBytes {
  held = 0;
  /** Who writes when. */
  readonly turns = new Turns();
  private readonly bytes_max: number;
  private readonly log: Log;
  private readonly now: () => number;
  private readonly connections = new Set<Held>();
  private readonly wholeAnswers = createGate(WHOLE_ANSWERS);
  private cutSince = 0;
  private nextWord = Number.NEGATIVE_INFINITY;

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
   * Makes an answer that is in memory whole, such as the record of a run, and counts it. Few are made at one time, so that many requests
   * at once do not read as many records before the first of them is counted. Throws busy when too much is held by then.
   */
  whole<T>(make: () => Promise<T>): Promise<T> {
    return this.wholeAnswers(async () => {
      // Answers of the store's thread arrive many in one turn of the event loop, so that all would be made in it.
      await this.turns.take(TURN_BYTES);
      this.admit();
      return make();
    });
  }

  /** Throws busy when too much is held for one more answer. */
  admit(): void {
    if (this.held < this.bytes_max * ADMIT_SHARE) return;
    throw new SvcError(
      'busy',
      `Clients have not read ${this.held} bytes that the daemon holds for them, nearly as many as it may.`,
      {
        details: { retry_after_ms: RETRY_AFTER_MS },
        hint: 'Read the streams that are open or close them, then try again; or raise the limit unsent_bytes.',
      },
    );
  }

  /** Counts a connection; `cut` ends it at once, and with it what it holds. */
  enter(cut: () => void): Outflow {
    const connection: Held = { shared: new Map(), own: 0, since: this.now(), cut };
    this.connections.add(connection);
    return {
      hold: (shared) => this.hold(connection, shared),
      release: (shared) => this.release(connection, shared),
      own: (bytes) => this.own(connection, bytes),
      turn: (bytes) => this.turns.take(bytes),
      leave: () => this.leave(connection),
    };
  }

  private hold(connection: Held, shared: SharedBytes): void {
    if (!this.connections.has(connection)) return;
    const times = connection.shared.get(shared) ?? 0;
    connection.shared.set(shared, times + 1);
    if (times > 0) return;
    if (connection.shared.size === 1 && connection.own === 0) connection.since = this.now();
    shared.holders += 1;
    if (shared.holders === 1) this.add(shared.size);
  }

  private release(connection: Held, shared: SharedBytes): void {
    const times = connection.shared.get(shared);
    if (times === undefined) return;
    if (times > 1) connection.shared.set(shared, times - 1);
    else this.drop(connection, shared);
  }

  private own(connection: Held, bytes: number): void {
    if (!this.connections.has(connection)) return;
    if (bytes < connection.own || connection.own + connection.shared.size === 0)
      connection.since = this.now();
    const more = bytes - connection.own;
    connection.own = bytes;
    this.add(more);
  }

  private leave(connection: Held): void {
    if (!this.connections.delete(connection)) return;
    for (const shared of connection.shared.keys()) this.drop(connection, shared);
    this.held -= connection.own;
    connection.own = 0;
  }

  private drop(connection: Held, shared: SharedBytes): void {
    connection.shared.delete(shared);
    shared.holders -= 1;
    if (shared.holders === 0) this.held -= shared.size;
  }

  private add(bytes: number): void {
    this.held += bytes;
    while (this.held > this.bytes_max) {
      const heaviest = this.heaviest();
      if (heaviest === null) return;
      this.leave(heaviest);
      heaviest.cut();
      this.tell();
    }
  }

  /** The one that has held most for longest; its part of what is shared counts. */
  private heaviest(): Held | null {
    const now = this.now();
    let [found, most]: [Held | null, number] = [null, 0];
    for (const connection of this.connections) {
      let bytes = connection.own;
      for (const { size, holders } of connection.shared.keys()) bytes += size / holders;
      const weight = bytes * (1 + now - connection.since);
      if (weight > most) [found, most] = [connection, weight];
    }
    return found;
  }

  /** One line for all that were cut within a second. */
  private tell(): void {
    this.cutSince += 1;
    if (this.now() < this.nextWord) return;
    this.nextWord = this.now() + TELL_EVERY_MS;
    this.log.warn(
      { connections: this.cutSince, unsent_bytes: this.bytes_max },
      'clients that did not read were cut off: too much was held for them',
    );
    this.cutSince = 0;
  }
}

interface Held {
  /** How many times each is held. */
  shared: Map<SharedBytes, number>;
  own: number;
  /** Since when it holds something, without having sent it. */
  since: number;
  cut: () => void;
}

const ADMIT_SHARE = 0.75;
const RETRY_AFTER_MS = 1000;
const TELL_EVERY_MS = 1000;
/** Answers that are made whole at one time. */
const WHOLE_ANSWERS = 4;
