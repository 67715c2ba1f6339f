/**
 * Measures how fast tokens are computed. Tokens that come at one moment with the first one were
 * computed with it, and their time is unknown: only those after them count.
 */
export class Pace {
  private readonly now: () => number;
  private first = 0;
  /** The last token of that moment, and how many there were then. */
  private from = { at: 0, tokens: 0 };
  private last = { at: 0, tokens: 0 };

  constructor(now: () => number = () => performance.now()) {
    this.now = now;
  }

  /** A token is there. */
  note(): void {
    const at = this.now();
    const tokens = this.last.tokens + 1;
    this.last = { at, tokens };
    if (tokens === 1) this.first = at;
    if (at - this.first <= MOMENT_MS) this.from = this.last;
  }

  /** As a field of the end of an answer. None: too few tokens came. */
  speed(): { tokens_per_second?: number } {
    const ms = this.last.at - this.from.at;
    if (ms < MEASURED_MS) return {};
    return { tokens_per_second: ((this.last.tokens - this.from.tokens) / ms) * 1000 };
  }
}

const MOMENT_MS = 1;
/** A shorter time says little. */
const MEASURED_MS = 5;
