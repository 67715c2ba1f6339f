/** How long an open circuit of a provider waits, before one request tries it again. */
export interface CircuitWaits {
  first_ms: number;
  longest_ms: number;
}

/**
 * The wait after the circuit opened so often in a row. It doubles each time. `jitter`, from 0 to 1,
 * adds up to a quarter, so that many clients do not return at once.
 */
export function circuitWait(
  openings: number,
  { first_ms, longest_ms }: CircuitWaits,
  jitter: number,
): number {
  const wait = Math.min(longest_ms, first_ms * 2 ** Math.max(0, openings - 1));
  return Math.round(wait * (1 + jitter / 4));
}

/** The wait before the next look at a provider that did not change. It doubles each time. */
export function probeWait(
  unchanged: number,
  { first_ms, longest_ms }: CircuitWaits,
  jitter: number,
): number {
  const wait = Math.min(Math.max(first_ms, longest_ms), first_ms * 2 ** Math.min(unchanged, 16));
  return Math.round(wait * (0.9 + jitter / 5));
}
