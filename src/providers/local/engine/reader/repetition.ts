/**
 * Whether an answer repeats itself without end: its last tokens are one sequence, again and again.
 *
 * 1. The repetition has `least` tokens, and the sequence comes `TIMES_LEAST` times. 0: never.
 * 2. It depends on the tokens of the answer alone. So a resumed answer stops at the same one.
 * 3. A token costs the same, however long the answer is.
 */
export class Repetition {
  private readonly least: number;
  /** The last tokens, in a ring. */
  private readonly last = new Int32Array(PERIOD_MAX);
  /** For each distance: how many last tokens equal the one that is so far before them. */
  private readonly same = new Uint32Array(PERIOD_MAX + 1);
  private count = 0;

  constructor(least: number) {
    this.least = least;
  }

  /** Adds a token. True: the answer repeats itself. */
  push(token: number): boolean {
    if (this.least === 0) return false;
    const { last, same, count } = this;
    let repeats = false;
    const most = Math.min(PERIOD_MAX, count);
    for (let period = 1; period <= most; period += 1) {
      const isSame = last[(count - period) % PERIOD_MAX] === token;
      const tokens = isSame ? (same[period] as number) + 1 : 0;
      same[period] = tokens;
      if (tokens + period >= Math.max(this.least, period * TIMES_LEAST)) repeats ||= isSame;
    }
    last[count % PERIOD_MAX] = token;
    this.count += 1;
    return repeats;
  }
}

/** A longer sequence that repeats itself is not noticed. */
const PERIOD_MAX = 256;
/** A table may have some equal rows. */
const TIMES_LEAST = 16;
