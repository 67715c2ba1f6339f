import type { Failure, RunEvent, Undated } from './events.ts';
import type { RunContext } from './run.ts';

/** First wait before another attempt, doubled for each further one up to the longest. */
export const RETRY_FIRST_MS = 500;
export const RETRY_LONGEST_MS = 30_000;

/** Milliseconds to wait before the attempt after `attempt` (1, 2, …). */
export function retryDelay(attempt: number, asked_ms: number | null = null): number {
  const backoff = Math.min(RETRY_LONGEST_MS, RETRY_FIRST_MS * 2 ** Math.min(attempt - 1, 10));
  return asked_ms === null ? backoff : Math.min(RETRY_LONGEST_MS, Math.max(backoff, asked_ms));
}

/**
 * The fact that a failed attempt leads to.
 *
 * 1. Nothing was delivered, the failure is retryable and attempts are left: wait, then try again.
 * 2. Text was delivered and the work is gone (`lost`): the run is interrupted and keeps its partial text.
 * 3. Anything else: the run failed.
 */
export function afterFailure(
  context: RunContext,
  error: Failure,
  now: number,
  options: { lost?: boolean; retry_after_ms?: number | null } = {},
): Undated<RunEvent> {
  const { attempt } = context;
  if (mayRetry(context, error)) {
    return { type: 'run.attempt_failed', attempt, error, retry_at: now + retryDelay(attempt, options.retry_after_ms ?? null) };
  }
  if (options.lost === true && context.outputs > 0) return { type: 'run.interrupted', error };
  return { type: 'run.failed', attempt, error };
}

/** Another attempt never repeats text that somebody may have read. */
export function mayRetry(context: RunContext, error: Failure): boolean {
  return error.retryable && context.outputs === 0 && context.attempt < context.max_attempts;
}
