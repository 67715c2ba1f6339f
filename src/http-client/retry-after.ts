/**
 * The wait that a response asks for, in milliseconds, at most a day. Null: it asks for none. Where
 * too many requests are refused without Retry-After, the headers of the rate limit say it.
 */
export function retryAfter(headers: Headers, status: number, now = Date.now()): number | null {
  const milliseconds = parseNumber(headers.get('retry-after-ms'));
  if (milliseconds !== null) return boundedWait(milliseconds);
  const text = headers.get('retry-after');
  const seconds = parseNumber(text);
  if (seconds !== null) return boundedWait(seconds * 1000);
  const until = Date.parse(text ?? '');
  if (!Number.isNaN(until)) return boundedWait(until - now);
  return status === 429 ? limitReset(headers, now) : null;
}

/**
 * When a limit ends: `x-ratelimit-reset-requests: 6m0s` of OpenAI, `x-ratelimit-reset` as seconds
 * or as a time since the epoch, `anthropic-ratelimit-requests-reset` as a date. Of several limits
 * the one without a rest counts, else the first to end.
 */
function limitReset(headers: Headers, now: number): number | null {
  const resets = [...headers].flatMap(([name, value]) => {
    if (!/ratelimit.*reset/.test(name)) return [];
    const wait_ms = resetIn(value, now);
    const rest = headers.get(name.replace('reset', 'remaining'));
    return wait_ms === null ? [] : [{ wait_ms, isSpent: parseNumber(rest) === 0 }];
  });
  const spent = resets.filter(({ isSpent }) => isSpent);
  const waits = (spent.length > 0 ? spent : resets).map(({ wait_ms }) => wait_ms);
  if (waits.length === 0) return null;
  return boundedWait(spent.length > 0 ? Math.max(...waits) : Math.min(...waits));
}

function resetIn(value: string, now: number): number | null {
  const number = parseNumber(value);
  if (number !== null)
    return number < DAY_MS / 1000
      ? number * 1000
      : (number < EPOCH_MS ? number * 1000 : number) - now;
  const parts = /^(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?$/.exec(
    value,
  );
  if (parts !== null && value !== '') {
    const [, hours = 0, minutes = 0, seconds = 0, rest = 0] = parts.map((part) =>
      Number(part ?? 0),
    );
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + rest;
  }
  const until = Date.parse(value);
  return Number.isNaN(until) ? null : until - now;
}

const DAY_MS = 86_400_000;
/** A larger number is a time in milliseconds, not in seconds. */
const EPOCH_MS = 1e11;

function parseNumber(text: string | null): number | null {
  const value = Number(text?.trim() || Number.NaN);
  return Number.isFinite(value) ? value : null;
}

/** A wait that the other side asks for, as far as svc believes it. */
export function boundedWait(wait: number): number {
  return Math.round(Math.min(DAY_MS, Math.max(0, wait)));
}
