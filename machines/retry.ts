import type { Target } from '../src/contract/events.ts';
import type { Failure, NewEvent } from './events.ts';
import { allTargetsError, asSentence, mayFailOver, sameTarget } from './failover.ts';
import type { FinishReason, RunContext, RunEvent } from './run/context.ts';
import { LOCAL } from './runs-to-start.ts';

/** The first wait before a retry. It doubles with each failure, up to the longest. */
export const RETRY_FIRST_MS = 500;
export const RETRY_LONGEST_MS = 30_000;
/** Longest wait for the present target if the run has another one. */
export const RETRY_SHORT_MS = 2000;

/** The recorded output is of another model file, so the answer cannot continue here. */
const MODEL_CHANGED = 'model_changed';

/**
 * Milliseconds to wait after this many failed attempts. `jitter`, from 0 to 1, adds up to a
 * quarter, so that runs which failed together do not return together.
 */
export function retryDelay(failures: number, asked_ms: number | null = null, jitter = 0): number {
  const backoff = RETRY_FIRST_MS * 2 ** Math.min(failures - 1, 10);
  const wait = Math.max(Math.min(RETRY_LONGEST_MS, backoff), asked_ms ?? 0);
  return Math.min(RETRY_LONGEST_MS, Math.round(wait * (1 + jitter / 4)));
}

/**
 * The event for a failed attempt.
 *
 * 1. The engine ended while it computed or loaded for the run (`computing`), and the policy allows
 *    it: suspend. This spends no attempt, because the run need not be the cause. `isSpent` has two
 *    exceptions.
 * 2. No output, a retryable error and attempts left: wait, then retry. With another target, only if
 *    the wait is short and a retry may help.
 * 3. No output and another target, which may answer in spite of this error: continue there.
 * 4. The wait that the provider asks for, or that svc chose, is longer than the longest one: fail
 *    now, and say whose wait it is.
 * 5. Some output, and the work is lost or the error is retryable, and the provider can continue
 *    from there: suspend.
 * 6. Some output, and the work is lost or its model file is not here: interrupt, and keep the
 *    partial text.
 * 7. Otherwise: fail. The error of a run with several targets has the error of each.
 */
export function afterFailure(
  context: RunContext,
  failure: Failure,
  now: number,
  options: {
    lost?: boolean;
    computing?: number | null;
    retry_after_ms?: number | null;
    /** svc chose that wait, not the provider. */
    isOwnWait?: boolean;
    /** A further attempt at this target would not help. */
    leave?: boolean;
    /** From 0 to 1, for the wait. */
    jitter?: number;
  } = {},
): NewEvent<RunEvent> {
  const { attempt } = context;
  const computing = options.computing ?? null;
  const asked_ms = options.retry_after_ms ?? null;
  const error = withWait(failure, asked_ms);
  const [next] = context.fallbacks;
  const move: NewEvent<RunEvent> | null =
    next !== undefined && isNextTarget(context, error, next)
      ? { type: 'run.attempt_failed', attempt, error, retry_at: now, next }
      : null;
  const isFree = computing !== null && !isSpent(context, error, computing, move !== null);
  if (isFree && canResume(context, computing))
    return { type: 'run.suspended', attempt, error, computing };
  if (computing === 1 && isGivenUp(context)) return move ?? giveUpError(context, error);
  const delay = retryDelay(context.failures + 1, asked_ms, options.jitter);
  if (move !== null && (options.leave === true || delay > RETRY_SHORT_MS)) return move;
  const isTooLong = asked_ms !== null && asked_ms > RETRY_LONGEST_MS;
  if (canRetry(context, error) && !isTooLong)
    return { type: 'run.attempt_failed', attempt, error, retry_at: now + delay };
  if (move !== null) return move;
  if (
    (options.lost === true || error.retryable) &&
    context.outputs > 0 &&
    context.resumable &&
    canResume(context, undefined)
  )
    return { type: 'run.suspended', attempt, error };
  const isLost = options.lost === true || error.code === MODEL_CHANGED;
  if (isLost && context.outputs > 0) return { type: 'run.interrupted', error };
  const last = allTargetsError(context, error, now);
  // A provider that gets no request has already reported when it is tried again.
  const names = isTooLong && error.retryable && last === error && options.leave !== true;
  return {
    type: 'run.failed',
    attempt,
    error: names ? withWaitText(error, asked_ms, options.isOwnWait) : last,
  };
}

function withWait(error: Failure, asked_ms: number | null): Failure {
  return asked_ms === null || !error.retryable || asked_ms <= 0
    ? error
    : { ...error, retry_after_ms: Math.round(asked_ms) };
}

function withWaitText(error: Failure, wait_ms: number, isOwn = false): Failure {
  const seconds = Math.ceil(wait_ms / 1000);
  const wait = isOwn ? `svc asks it again in ${seconds} s.` : `It asks for a wait of ${seconds} s.`;
  return { ...error, message: `${asSentence(error.message)} ${wait}` };
}

/** Whether the engine died too often while it computed this run alone. */
function isGivenUp({ recovery, deaths, max_losses }: RunContext): boolean {
  return recovery !== 'end' && deaths > 0 && deaths >= max_losses;
}

function giveUpError(
  { attempt, deaths, outputs }: RunContext,
  { code, message: last }: Failure,
): NewEvent<RunEvent> {
  const message =
    `The engine died ${deaths + 1} times in a row while it computed this run alone, so the run ` +
    `is given up. The last time: ${last}`;
  const error: Failure = { code, message, retryable: false };
  return outputs > 0 ? { type: 'run.interrupted', error } : { type: 'run.failed', attempt, error };
}

export const ENGINE_CRASHED = 'engine_crashed';
/** The engine was killed from outside while it loaded a model. */
export const ENGINE_KILLED = 'engine_killed';

/** Whether the end of a load counts as an attempt: another target may answer, or it may recur. */
function isSpent(
  { outputs }: RunContext,
  { code }: Failure,
  computing: number,
  hasOther: boolean,
): boolean {
  if (code === ENGINE_KILLED) return hasOther;
  return code === ENGINE_CRASHED && computing === 0 && outputs === 0;
}

/** Whether only this run can have caused a death of the engine, or the log does not say. */
export function isToBlame(computing: number | undefined): boolean {
  return computing === undefined || computing === 1;
}

/** The error of a complete answer that is empty. */
export const ANSWER_EMPTY = 'answer_empty';

/**
 * Whether an answer without output is a failure. It counts as an answer in these cases:
 *
 * 1. The built-in engine computed it: the same tokens would come again.
 * 2. It ended for another reason than `stop`: a filter, or tokens that the provider does not show.
 * 3. The run has stop texts, and one may come first.
 */
export function isEmptyAnswer(
  { request: { provider, stop = [] } }: Pick<RunContext, 'request'>,
  { finish_reason }: { finish_reason: FinishReason },
): boolean {
  return provider !== LOCAL && finish_reason === 'stop' && stop.length === 0;
}

/** An empty answer is requested once more. */
const EMPTY_ATTEMPTS = 2;

/** A retry never repeats text that a client may have read. */
export function canRetry(context: RunContext, error: Failure): boolean {
  const { outputs, failures, fallbacks, max_attempts, target_attempts } = context;
  const all = fallbacks.length === 0 ? max_attempts : (target_attempts ?? max_attempts);
  const most = error.code === ANSWER_EMPTY ? Math.min(all, EMPTY_ATTEMPTS) : all;
  return error.retryable && outputs === 0 && failures + 1 < most;
}

/** Whether a run without output moves to this target after an error. */
export function isNextTarget(
  { fallbacks: [next], outputs, failed_attempts }: RunContext,
  { code }: Failure,
  target: Target,
): boolean {
  return (
    next !== undefined &&
    outputs === 0 &&
    sameTarget(next, target) &&
    mayFailOver(code, failed_attempts)
  );
}

/**
 * Whether a run that lost its work may resume, as its policy says. Not if the log lacks its prompt
 * or output.
 */
export function mayResume({ recovery, resumable, content_kept, outputs }: RunContext): boolean {
  if (recovery === 'end' || !content_kept) return false;
  return recovery === 'restart' || outputs === 0 || resumable;
}

/** The same after the work was lost here. Not after too many deaths that the run has caused. */
export function canResume(context: RunContext, computing: number | undefined): boolean {
  const { deaths, max_losses } = context;
  return mayResume(context) && (!isToBlame(computing) || deaths < max_losses);
}
