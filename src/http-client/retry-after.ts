/** The wait of a Retry-After header in milliseconds, at most a day. Null: none is asked for. */
export function retryAfter(headers: Headers, now = Date.now()): number | null {
  const milliseconds = parseNumber(headers.get('retry-after-ms'));
  if (milliseconds !== null) return boundedWait(milliseconds);
  const text = headers.get('retry-after');
  const seconds = parseNumber(text);
  if (seconds !== null) return boundedWait(seconds * 1000);
  const until = Date.parse(text ?? '');
  return Number.isNaN(until) ? null : boundedWait(until - now);
}

const DAY_MS = 86_400_000;

function parseNumber(text: string | null): number | null {
  const value = Number(text?.trim() || Number.NaN);
  return Number.isFinite(value) ? value : null;
}

/** A wait that the other side asks for, as far as svc believes it. */
export function boundedWait(wait: number): number {
  return Math.round(Math.min(DAY_MS, Math.max(0, wait)));
}
