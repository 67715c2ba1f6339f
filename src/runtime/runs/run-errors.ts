import { type DaemonSnapshot, refusal } from '../../../machines/daemon/chart.ts';
import type { RunSnapshot } from '../../../machines/run/chart.ts';
import { isIn } from '../../../machines/step.ts';
import type { RunRecord } from '../../contract/contract.ts';
import { formError, fromBody, isStoreError, RETRY_AFTER_MS, SvcError } from '../../errors.ts';
import { isRun, type RunKey } from '../../kernel/stream.ts';
import { shownId } from './ids.ts';

/** Throws run_unknown for an id that is not of a run. It could name another machine's stream. */
export function runKey(run_id: string): RunKey {
  if (!isRun(run_id)) throw unknownRun(run_id);
  return run_id;
}

export function unknownRun(run_id: string): SvcError {
  return new SvcError('run_unknown', `There is no run ${shownId(run_id)}.`, { param: 'id' });
}

export function unknownConversation(id: string): SvcError {
  return new SvcError('conversation_unknown', `There is no conversation ${shownId(id)}.`, {
    param: 'conversation',
  });
}

/** The error for a follower of a run that is removed before its last event was sent. */
export function runRemovedError(run_id: string): SvcError {
  return new SvcError(
    'run_unknown',
    `The run ${shownId(run_id)} was removed from the log before all its events were sent.`,
    { param: 'id', hint: 'What was sent is not complete. The runs that are there: svc runs list' },
  );
}

/** The error for a key whose run came through another API: that answer has another form. */
export function otherApi({ asked_as = "svc's own API" }: { readonly asked_as?: string }): SvcError {
  return new SvcError(
    'idempotency_conflict',
    `The idempotency key was used for a request in another API (${asked_as}).`,
    { param: 'idempotency_key' },
  );
}

/** The error for a run whose commit is late, or waits behind a late one. */
export function withdrawnError({ details }: SvcError): SvcError {
  const message =
    'The disk does not answer, so the run may or may not be recorded. ' +
    'The daemon withdraws it when the disk answers.';
  return new SvcError('store_stalled', message, details === undefined ? {} : { details });
}

/** The error for a follower when the daemon closes before the run ends. */
export function cutOff(run: RunSnapshot | undefined): SvcError {
  if (run === undefined)
    return new SvcError(
      'daemon_stopping',
      'The daemon stopped. The run belongs to another node of the fleet, and continues there.',
    );
  if (run.hasTag('queued'))
    return new SvcError(
      'daemon_stopping',
      'The daemon stopped while the run was queued. The run starts after the next start of ' +
        'the daemon.',
    );
  if (isIn(run, 'suspended'))
    return new SvcError(
      'daemon_stopping',
      'The daemon stopped before the answer was complete. The run continues after the next ' +
        'start of the daemon.',
    );
  return new SvcError(
    'run_interrupted',
    'The daemon stopped before the answer was complete. The text so far is kept.',
  );
}

/**
 * The error of a run, for a client that asks for its answer now. Null: it has no error.
 *
 * 1. The rest of a wait counts from now. A wait that is over is omitted.
 * 2. The error is settled if svc has repeated the attempt.
 * 3. A key always leads to the same outcome, so a retry needs another key.
 * 4. An answer without the requested form counts as an error.
 */
export function errorOfRun(run: RunRecord, now: number): SvcError | null {
  const { error, ended_at, attempts, idempotency_key } = run;
  const misfit = formError(run);
  if (misfit !== null) return idempotency_key === null ? misfit : endOfKey(misfit);
  if (error === null) return null;
  if (idempotency_key !== null) return endOfKey(fromBody(error));
  const failure = fromBody(error, { settled: attempts > 1 });
  if (failure.retryAfterMs === null || ended_at === null) return failure;
  const left_ms = failure.retryAfterMs - (now - Date.parse(ended_at));
  return failure.with({ retryAfterMs: left_ms > 0 ? left_ms : null });
}

function endOfKey(failure: SvcError): SvcError {
  return failure.with({
    settled: true,
    retryable: false,
    retryAfterMs: null,
    ...(failure.retryable
      ? { hint: 'This is the end of the run. Ask again with another idempotency key.' }
      : {}),
  });
}

/** Providers throw SvcError. A store error is not a failure of the provider. */
export function asFailure(thrown: unknown): SvcError {
  if (thrown instanceof SvcError && !isStoreError(thrown)) return thrown;
  return new SvcError('provider_failed', 'The provider failed in an unexpected way.', {
    retryable: false,
    cause: thrown,
  });
}

/** Another request changed the conversation after this one had read it. */
export function conversationChangedError(conversation: string): SvcError {
  return new SvcError(
    'conversation_busy',
    `Another request changed the conversation ${conversation} meanwhile.`,
    { param: 'conversation', hint: 'Send the request again.' },
  );
}

/** Why the daemon admits no run now. */
export function notAdmittedError(daemon: DaemonSnapshot | undefined): SvcError {
  const code = refusal(daemon) ?? 'busy';
  const message =
    code === 'busy'
      ? `${daemon?.context.unsettled} runs are queued or active, as many as the daemon accepts.`
      : undefined;
  const details = RETRYABLE.has(code) ? { details: { retry_after_ms: RETRY_AFTER_MS } } : {};
  return new SvcError(code, message, details);
}

const RETRYABLE: ReadonlySet<string> = new Set(['busy', 'store_stalled']);
