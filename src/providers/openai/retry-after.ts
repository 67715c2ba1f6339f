/** How long a provider asks to be left alone, in milliseconds; null when it does not say. */
export function retryAfter(headers: Headers, now = Date.now()): number | null {
  const exact = number(headers.get('retry-after-ms'));
  if (exact !== null) return bound(exact);
  const text = headers.get('retry-after');
  const seconds = number(text);
  if (seconds !== null) return bound(seconds * 1000);
  const until = Date.parse(text ?? '');
  return Number.isNaN(until) ? null : bound(until - now);
}

const DAY_MS = 86_400_000;

function number(text: string | null): number | null {
  const value = Number(text?.trim() || Number.NaN);
  return Number.isFinite(value) ? value : null;
}

function bound(wait: number): number {
  return Math.round(Math.min(DAY_MS, Math.max(0, wait)));
}
