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
  const overAt = run.at + keep_ms;
  if (overAt >= even_since) return overAt;
  const { before, after } = crossing(run, last, overAt, firstFrom);
  const passedAt = Math.min(after?.at ?? even_since, even_since);
  return passedAt - before.at < keep_ms / 2 ? overAt : passedAt + keep_ms;
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
