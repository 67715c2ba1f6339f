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
  rules: AgeRules,
  firstFrom: (seq: number) => Moment | undefined,
): number {
  const steps = oldAtSteps(run, last, rules);
  let step = steps.next();
  while (!step.done) step = steps.next(firstFrom(step.value));
  return step.value;
}

/** The same, of a log that answers later. It yields the positions, and takes the moments. */
export function* oldAtSteps(
  run: Moment,
  last: Moment,
  { keep_ms, even_since }: AgeRules,
): Generator<number, number, Moment | undefined> {
  const overAt = run.at + keep_ms;
  if (overAt >= even_since) return overAt;
  const { before, after } = yield* crossing(run, last, overAt);
  const passedAt = Math.min(after?.at ?? even_since, even_since);
  return passedAt - before.at < keep_ms / 2 ? overAt : passedAt + keep_ms;
}

/**
 * Two neighbours in the log: the first before that time, the second not. No second one if the log
 * ends before.
 */
function* crossing(
  run: Moment,
  last: Moment,
  at: number,
): Generator<number, { before: Moment; after: Moment | null }, Moment | undefined> {
  if (last.at < at) return { before: last, after: null };
  let [before, after] = [run, last];
  /** Between here and `after` all events were removed. */
  let end = after.seq;
  while (end - before.seq > 1) {
    const half = Math.floor((before.seq + end) / 2);
    const middle = yield half;
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
