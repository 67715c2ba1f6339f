/** The time of an event, by its position in the log. */
export interface Moment {
  seq: number;
  at: number;
}

export interface AgeRules {
  /** How long a finished run is kept. */
  keep_ms: number;
  /** Since when the current clock has not jumped. */
  even_since: number;
}

/**
 * When a finished run is old, without trusting a clock jump.
 *
 * 1. A run is old when its time is over, if that moment passed while the clock ran: between two
 *    events less than half that time apart.
 * 2. If it passed in a jump, either clock may be wrong, or the daemon was off. The time then
 *    counts from the jump.
 *
 * `firstFrom` returns the first event at or after a position.
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

/**
 * Two neighbours in the log: the first before that time, the second not. No second one if the log
 * ends before.
 */
function crossing(
  run: Moment,
  last: Moment,
  at: number,
  firstFrom: (seq: number) => Moment | undefined,
): { before: Moment; after: Moment | null } {
  if (last.at < at) return { before: last, after: null };
  let [before, after] = [run, last];
  /** Between here and `after` all events were removed. */
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
