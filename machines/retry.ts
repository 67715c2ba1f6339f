import type { Failure, NewEvent, RunEvent } from './events.ts';
import type { RunContext } from './run-context.ts';

/** First wait before another attempt, doubled for each further one up to the longest. */
export const RETRY_FIRST_MS = 500;
export const RETRY_LONGEST_MS = 30_000;

/** Milliseconds to wait after this many failed attempts (1, 2, …). */
export function retryDelay(failures: number, asked_ms: number | null = null): number {
  const backoff = Math.min(RETRY_LONGEST_MS, RETRY_FIRST_MS * 2 ** Math.min(failures - 1, 10));
  return asked_ms === null ? backoff : Math.min(RETRY_LONGEST_MS, Math.max(backoff, asked_ms));
}

/**
 * The fact that a failed attempt leads to.
 *
 * 1. The engine died or was stopped while it computed the run (`computing`), and the policy allows it: the run resumes. Such a
 *    death spends no attempt, since another run may have caused it.
 * 2. Nothing was delivered, the failure is retryable and attempts are left: wait, then try again.
 * 3. Text was delivered, the work is gone (`lost`) or the failure is retryable, and its provider can go on from there: the run resumes.
 * 4. Text was delivered and the work is gone: the run is interrupted and keeps its partial text.
 * 5. Anything else: the run failed.
 */
export function afterFailure(
  context: RunContext,
  error: Failure,
  now: number,
  options: { lost?: boolean; computing?: number | null; retry_after_ms?: number | null } = {},
): NewEvent<RunEvent> {
  const { attempt } = context;
  const computing = options.computing ?? null;
  if (computing !== null && canResume(context))
    return { type: 'run.suspended', attempt, error, computing };
  if (computing !== null && isGivenUp(context)) return givenUp(context, error);
  if (canRetry(context, error)) {
    return {
      type: 'run.attempt_failed',
      attempt,
      error,
      retry_at: now + retryDelay(context.failures + 1, options.retry_after_ms ?? null),
    };
  }
  if (
    (options.lost === true || error.retryable) &&
    context.outputs > 0 &&
    context.resumable &&
    canResume(context)
  )
    return { type: 'run.suspended', attempt, error };
  if (options.lost === true && context.outputs > 0) return { type: 'run.interrupted', error };
  return { type: 'run.failed', attempt, error };
}

/** The engine died as often as the run may lose its work, each time with this run alone. */
function isGivenUp({ recovery, deaths, max_losses }: RunContext): boolean {
  return recovery !== 'end' && deaths > 0 && deaths >= max_losses;
}

function givenUp({ attempt, deaths, outputs }: RunContext, { code }: Failure): NewEvent<RunEvent> {
  const message = `The engine died ${deaths + 1} times in a row while it computed this run alone (limit run_losses), so the run is given up.`;
  const error: Failure = { code, message, retryable: false };
  return outputs > 0 ? { type: 'run.interrupted', error } : { type: 'run.failed', attempt, error };
}

/** Whether only this run can have caused a death of the engine: it computed no other, or the log does not say. */
export function isToBlame(computing: number | undefined): boolean {
  return computing === undefined || computing === 1;
}

/** Another attempt never repeats text that somebody may have read. */
export function canRetry(context: RunContext, error: Failure): boolean {
  return error.retryable && context.outputs === 0 && context.failures + 1 < context.max_attempts;
}

/**
 * Whether a run that was cut off resumes, as its policy says. One that kills the engine again and again is given up, and so is one
 * of which the log does not hold what was asked or answered.
 */
export function canResume({
  recovery,
  resumable,
  content_kept,
  outputs,
  deaths,
  max_losses,
}: RunContext): boolean {
  if (recovery === 'end' || !content_kept || deaths >= max_losses) return false;
  return recovery === 'restart' || outputs === 0 || resumable;
}
