/** The value below which a share of the values lie. NaN without values. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/**
 * The median of the ratios within a round, so that a busy machine slows both sides. Series of
 * different lengths are compared by their medians.
 */
export function ratioOf(values: readonly number[], floor: readonly number[]): number {
  if (values.length !== floor.length) return median(values) / median(floor);
  return median(values.map((value, round) => value / (floor[round] ?? Number.NaN)));
}
