/** The time of an event, by its position in the log. */
export interface Moment {
  seq: number;
  at: number;
}

export interface AgeRules {
  /** How long a finished run is kept. */
  keep_ms: number;
  /** Since when the present clock has run without a leap. */
  even_since: number;
}

/**
 * When a finished run is old, by the clock of those who recorded what came after it, and not only by a leap of the clock.
 *
 * 1. A run is old when its time is over, if that moment passed while the clock ran: between two events that are less than half that time apart.
 * 2. Where it passed in a leap, it is unknown which of the two clocks was wrong, or whether the daemon was just off. The time then counts from the leap.
 *
 * `firstFrom` gives the first event at or after a position.
 */
export function oldAt(
  run: Moment,
  last: Moment,
  { keep_ms, even_since }: AgeRules,
  firstFrom: (seq: number) => Moment | undefined,
): number {
  const over_at = run.at + keep_ms;
  if (over_at >= even_since) return over_at;
  const { before, after } = crossing(run, last, over_at, firstFrom);
  const passed_at = Math.min(after?.at ?? even_since, even_since);
  return passed_at - before.at < keep_ms / 2 ? over_at : passed_at + keep_ms;
}

/** Two neighbours of the log, the first before that time and the second not; there is no second when the log ends before that time. */
function crossing(
  run: Moment,
  last: Moment,
  at: number,
  firstFrom: (seq: number) => Moment | undefined,
): { before: Moment; after: Moment | null } {
  if (last.at < at) return { before: last, after: null };
  let [before, after] = [run, last];
  /** From here up to `after` there is no other event: it was removed. */
  let end = after.seq;
  while (end - before.seq > 1) {
    const half = Math.floor((before.seq + end) / 2);
    const middle = firstFrom(half);
    if (middle === undefined || middle.seq >= end) {
      end = half;
    } else if (middle.at < at) {
      before = middle;
    } else {
      after = middle;
      end = middle.seq;
    }
  }
  return { before, after };
}
