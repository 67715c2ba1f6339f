/** What may be spent at once. It comes back with time. */
export class Allowance {
  /** When all is back. */
  private full_at = 0;

  /**
   * Spends `cost_ms` of `most_ms`, and returns 0. Without so much left: how many milliseconds until
   * there is.
   */
  take(now: number, cost_ms: number, most_ms: number): number {
    const early = Math.max(this.full_at - now, 0) + cost_ms - most_ms;
    if (early > ROUNDING_MS) return early;
    this.spend(now, cost_ms);
    return 0;
  }

  /** Spends it in any case, also more than there is. */
  spend(now: number, cost_ms: number): void {
    this.full_at = Math.max(this.full_at, now) + cost_ms;
  }
}

/** The parts of a time add up with small errors. */
const ROUNDING_MS = 0.01;
