/** Bytes of a file: from the first to before the second. */
export type Interval = readonly [from: number, to: number];

/** Adds an interval to a list that is sorted and has gaps between its intervals. */
export function addInterval(list: readonly Interval[], [from, to]: Interval): Interval[] {
  if (from >= to) return [...list];
  const before = list.filter((other) => other[1] < from);
  const after = list.filter((other) => other[0] > to);
  const touched = list.slice(before.length, list.length - after.length);
  const start = Math.min(from, ...touched.map((other) => other[0]));
  const end = Math.max(to, ...touched.map((other) => other[1]));
  return [...before, [start, end], ...after];
}

/** The intervals below `size` that the list does not have. */
export function gapsIn(list: readonly Interval[], size: number): Interval[] {
  const gaps: Interval[] = [];
  let at = 0;
  for (const [from, to] of list) {
    if (from > at) gaps.push([at, Math.min(from, size)]);
    at = Math.max(at, to);
  }
  if (at < size) gaps.push([at, size]);
  return gaps;
}

export function bytesIn(list: readonly Interval[]): number {
  return list.reduce((sum, [from, to]) => sum + to - from, 0);
}

export function endOf(list: readonly Interval[]): number {
  return list.at(-1)?.[1] ?? 0;
}

/** Whether a parsed value is such a list. */
export function isIntervals(value: unknown): value is Interval[] {
  if (!Array.isArray(value) || value.length > INTERVALS_MAX) return false;
  let last = -1;
  return value.every((pair: unknown) => {
    if (!Array.isArray(pair) || pair.length !== 2 || !pair.every(Number.isSafeInteger))
      return false;
    const [from, to] = pair as [number, number];
    const follows = from > last && to > from && from >= 0;
    last = to;
    return follows;
  });
}

/** More than any download has at one time. */
const INTERVALS_MAX = 10_000;
