import type { Failure, NewEvent, RunEvent } from './events.ts';
import { exhausted, mayFailOver, sameTarget, type Target } from './failover.ts';
import type { RunContext } from './run-context.ts';

/** The first wait before a retry. It doubles with each failure, up to the longest. */
export const RETRY_FIRST_MS = 500;
export const RETRY_LONGEST_MS = 30_000;
/** A run with another target waits no longer for the present one. */
export const RETRY_SHORT_MS = 2000;

/** Milliseconds to wait after this many failed attempts. */
export function retryDelay(failures: number, asked_ms: number | null = null): number {
  const backoff = Math.min(RETRY_LONGEST_MS, RETRY_FIRST_MS * 2 ** Math.min(failures - 1, 10));
  return asked_ms === null ? backoff : Math.min(RETRY_LONGEST_MS, Math.max(backoff, asked_ms));
}

/**
 * The event for a failed attempt.
 *
 * 1. The engine ended while it computed the run (`computing`), and the policy allows it: suspend.
 *    This spends no attempt, because another run can be the cause.
 * 2. No output, a retryable error and attempts left: wait, then retry. With another target, only if
 *    the wait is short and a retry may help.
 * 3. No output and another target, which may answer in spite of this error: go on there.
 * 4. Some output, and the work is lost or the error is retryable, and the provider can continue
 *    from there: suspend.
 * 5. Some output, and the work is lost: interrupt, and keep the partial text.
 * 6. Otherwise: fail. A run of several targets says what each of them said.
 */
export function afterFailure(
  context: RunContext,
  error: Failure,
  now: number,
  options: {
    lost?: boolean;
    computing?: number | null;
    retry_after_ms?: number | null;
    /** A further attempt at this target would not help. */
    leave?: boolean;
  } = {},
): NewEvent<RunEvent> {
  const { attempt } = context;
  const computing = options.computing ?? null;
  if (computing !== null && canResume(context))
    return { type: 'run.suspended', attempt, error, computing };
  const [next] = context.fallbacks;
  const move: NewEvent<RunEvent> | null =
    next !== undefined && isNextTarget(context, error, next)
      ? { type: 'run.attempt_failed', attempt, error, retry_at: now, next }
      : null;
  if (computing !== null && isGivenUp(context)) return move ?? givenUp(context, error);
  const delay = retryDelay(context.failures + 1, options.retry_after_ms ?? null);
  if (move !== null && (options.leave === true || delay > RETRY_SHORT_MS)) return move;
  if (canRetry(context, error))
    return { type: 'run.attempt_failed', attempt, error, retry_at: now + delay };
  if (move !== null) return move;
  if (
    (options.lost === true || error.retryable) &&
    context.outputs > 0 &&
    context.resumable &&
    canResume(context)
  )
    return { type: 'run.suspended', attempt, error };
  if (options.lost === true && context.outputs > 0) return { type: 'run.interrupted', error };
  return { type: 'run.failed', attempt, error: exhausted(context, error) };
}

/** Whether the engine died too often while it computed this run alone. */
function isGivenUp({ recovery, deaths, max_losses }: RunContext): boolean {
  return recovery !== 'end' && deaths > 0 && deaths >= max_losses;
}

function givenUp({ attempt, deaths, outputs }: RunContext, { code }: Failure): NewEvent<RunEvent> {
  const message = `The engine died ${deaths + 1} times in a row while it computed this run alone (limit run_losses), so the run is given up.`;
  const error: Failure = { code, message, retryable: false };
  return outputs > 0 ? { type: 'run.interrupted', error } : { type: 'run.failed', attempt, error };
}

/** Whether only this run can have caused a death of the engine, or the log does not say. */
export function isToBlame(computing: number | undefined): boolean {
  return computing === undefined || computing === 1;
}

/** A retry never repeats text that a client may have read. */
export function canRetry(context: RunContext, error: Failure): boolean {
  const { outputs, failures, fallbacks, max_attempts, target_attempts } = context;
  const most = fallbacks.length === 0 ? max_attempts : (target_attempts ?? max_attempts);
  return error.retryable && outputs === 0 && failures + 1 < most;
}

/** Whether a run without output goes on to this target after an error. */
export function isNextTarget(
  { fallbacks: [next], outputs }: RunContext,
  { code }: Failure,
  target: Target,
): boolean {
  return next !== undefined && outputs === 0 && sameTarget(next, target) && mayFailOver(code);
}

/**
 * Whether a run that lost its work may resume, as its policy says. Not if the log lacks its prompt
 * or output, and not after too many deaths of the engine.
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
