import { isQuiet, leftByOthers, readUse, type Use } from './idle.ts';

/** Time between two looks at the machine. */
export const LOOK_MS = 1000;
/** For which a speed beside other work counts: that work changes. */
const FRESH_MS = 60_000;
/** The share of the newest token in the time of a token. */
const NEWEST = 0.1;

/**
 * The number of threads for the next answers.
 *
 * All threads of a token wait for the slowest one. Beside other work they may wait long, or not at
 * all: that depends on how the system shares its cores among programs. So two numbers are tried,
 * the best one on idle cores and that of the idle cores. The faster one stays for a while.
 */
export class ThreadsNow {
  private readonly best: number;
  private readonly available: number;
  private readonly read: () => Use;
  private last: Use;
  /** Cores that other work leaves idle. Null: all. */
  private idle: number | null = null;
  /** Time of a token by threads, in milliseconds, and when it was measured. */
  private readonly tokens = new Map<number, { ms: number; at: number }>();

  /** `available`: cores that this process may use. */
  constructor(best: number, available: number, read = readUse) {
    [this.best, this.available, this.read] = [best, available, read];
    this.last = read();
  }

  /** Call it now and then: what counts is the use since the last call. */
  look(use = this.read()): void {
    const idle = leftByOthers(this.last, use);
    this.idle = isQuiet(this.available, idle) ? null : idle;
    this.last = use;
  }

  /** So long a token took with these threads. */
  note(threads: number, ms: number): void {
    const { at } = this.last;
    const before = this.tokens.get(threads);
    const isNew = before === undefined || at - before.at > FRESH_MS;
    this.tokens.set(threads, { ms: isNew ? ms : before.ms + NEWEST * (ms - before.ms), at });
  }

  get present(): number {
    const { best, idle } = this;
    if (idle === null) return best;
    const few = Math.max(1, Math.min(best, Math.round(idle)));
    const [many, fewer] = [this.msOf(best), this.msOf(few)];
    if (many === null) return best;
    return fewer === null || fewer < many ? few : best;
  }

  /** Null: it is not known, or was measured long ago. */
  private msOf(threads: number): number | null {
    const token = this.tokens.get(threads);
    return token === undefined || this.last.at - token.at > FRESH_MS ? null : token.ms;
  }
}
