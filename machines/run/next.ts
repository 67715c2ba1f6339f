import type { Deadline, Failure, NewEvent } from '../events.ts';
import type { Deadlines } from '../machine.ts';
import { mayResume } from '../retry.ts';
import { LOCAL } from '../runs-to-start.ts';
import { isIn } from '../step.ts';
import { awaitsApproval, type ToolCall } from '../tool-call.ts';
import type { RunSnapshot } from './chart.ts';
import type { DeadlineName, RunContext, RunEvent } from './context.ts';

/** The next event of a run: by its deadline, when its work has stopped, and after a crash. */

export const DAEMON_STOPPING: Failure = {
  code: 'run_interrupted',
  message: 'The daemon stopped before the answer was complete.',
  retryable: true,
};

const DAEMON_DIED: Failure = {
  code: 'run_interrupted',
  message: 'The daemon died before the answer was complete.',
  retryable: true,
};

function gaveUpError(deaths: number): Failure {
  const message =
    `The daemon ended ${deaths} times in a row while it worked on this run, without new text. ` +
    'Something in it may end the daemon, so it is not tried again.';
  return { code: 'run_given_up', message, retryable: false };
}

const CONTENT_NOT_KEPT: Failure = {
  code: 'content_not_kept',
  message:
    'The daemon died before the answer was complete, and what was asked or answered is not ' +
    'kept in the log.',
  retryable: true,
};

/** The event that starts the next attempt. */
export function nextAttempt({ context }: RunSnapshot): NewEvent<RunEvent> {
  return {
    type: 'run.started',
    attempt: context.attempt + 1,
    resumes: context.outputs > 0 && context.recovery === 'resume',
    ...(context.turns.length === 0 ? {} : { turn: context.turns.length }),
  };
}

/** The only model file with which an interrupted run can resume. Null: any file will do. */
export function fileToResume(snapshot: RunSnapshot | undefined): string | null {
  if (snapshot === undefined) return null;
  const goesOn = afterCrash(snapshot, 0)?.type === 'run.recovered';
  const { recovery, outputs, model_file } = snapshot.context;
  return goesOn && recovery === 'resume' && outputs > 0 ? model_file : null;
}

/** When each deadline of a run passes. */
export const runDeadlines: Deadlines<RunSnapshot, RunEvent> = {
  total: ({ context }) =>
    context.paused_at === null ? toDeadlinePassed(context, 'total', context.deadline_at) : null,
  approval: ({ context: { calls } }) => {
    const first = findEarliest(calls.filter(awaitsApproval), ({ approve_until }) => approve_until);
    const denied = { by: 'deadline', reason: 'No person allowed it in time.' };
    return (
      first && { at: first.at, event: { type: 'run.tool_denied', call: first.call, ...denied } }
    );
  },
  call: ({ context: { calls } }) => {
    const started = calls.filter(({ state }) => state === 'started');
    const first = findEarliest(started, ({ time_limit_at }) => time_limit_at);
    const text = 'The tool did not answer in time. It may still have done its work.';
    const event = { type: 'run.tool_finished', text, is_error: true } as const;
    return first && { at: first.at, event: { ...event, call: first.call } };
  },
  queue: ({ context }) => toDeadlinePassed(context, 'queue', context.queue_deadline_at),
  first_output: ({ context }) => toDeadlinePassed(context, 'first_output', context.timeout_at),
  idle: ({ context }) => toDeadlinePassed(context, 'idle', context.timeout_at),
  retry: (snapshot) => ({ at: snapshot.context.timeout_at, event: nextAttempt(snapshot) }),
  grace: (snapshot) => {
    const event = terminalOf(snapshot, true);
    return event === null ? null : { at: snapshot.context.timeout_at, event };
  },
};

/** The call with the earliest time. */
function findEarliest(
  calls: readonly ToolCall[],
  timeOf: (call: ToolCall) => number | null,
): { call: number; at: number } | null {
  const times = calls.flatMap((call) => {
    const at = timeOf(call);
    return at === null ? [] : [{ call: call.call, at }];
  });
  return times.toSorted((a, b) => a.at - b.at)[0] ?? null;
}

function toDeadlinePassed(
  context: RunContext,
  deadline: DeadlineName,
  at: number,
): Deadline<RunEvent> {
  return { at, event: { type: 'run.deadline_passed', deadline, ...silence(context, deadline) } };
}

/** The failure of a provider that sent nothing for too long. Other deadlines are not its fault. */
function silence(
  { request: { provider }, first_output_ms, idle_ms }: RunContext,
  deadline: DeadlineName,
): { error?: Failure } {
  const within = (ms: number) => `within ${Math.round(ms / 100) / 10} s`;
  if (deadline === 'first_output') {
    const message = `${provider} did not begin to answer ${within(first_output_ms)}.`;
    return { error: { code: 'provider_silent', message, retryable: true } };
  }
  if (deadline !== 'idle') return {};
  const message = `${provider} began to answer, and then sent nothing more ${within(idle_ms)}.`;
  return { error: { code: 'provider_stalled', message, retryable: true } };
}

/**
 * The event that records that the work of a cancelling run has stopped; null in any other state.
 * A run that can resume waits for the next boot instead of ending.
 */
export function terminalOf(snapshot: RunSnapshot, forced: boolean): NewEvent<RunEvent> | null {
  if (isIn(snapshot, 'by_request')) return { type: 'run.cancelled', forced };
  if (isIn(snapshot, 'by_deadline')) return { type: 'run.timed_out', forced };
  if (!isIn(snapshot, 'by_stop')) return null;
  const { context } = snapshot;
  return mayResume(context)
    ? { type: 'run.suspended', attempt: context.attempt, error: DAEMON_STOPPING }
    : { type: 'run.interrupted', error: DAEMON_STOPPING };
}

/**
 * The event for a run that an earlier boot left unfinished; null for a finished run.
 *
 * 1. It was cancelling for a cancel or a deadline: the work died with the process, so it ends that
 *    way.
 * 2. The log does not have its prompt or its output: it is interrupted.
 * 3. Many boots in a row ended while they read answers to it from a provider. The run may be the
 *    cause, and is interrupted.
 * 4. It waited, or its policy lets it resume: it is recovered.
 * 5. Otherwise it is interrupted, and keeps the text in the log.
 */
export function afterCrash(snapshot: RunSnapshot, downtime_ms: number): NewEvent<RunEvent> | null {
  if (snapshot.status !== 'active') return null;
  const end = isIn(snapshot, 'by_stop') ? null : terminalOf(snapshot, false);
  if (end !== null) return end;
  if (!snapshot.context.content_kept) return { type: 'run.interrupted', error: CONTENT_NOT_KEPT };
  const waits = ['waiting', 'calling', 'paused'] as const;
  const isWaiting = waits.some((tag) => snapshot.hasTag(tag));
  if (isWaiting) return { type: 'run.recovered', downtime_ms };
  const { boots, max_losses, request } = snapshot.context;
  // In a local run, only the engine reads foreign data. Old logs do not say how many may be lost.
  if (request.provider !== LOCAL && max_losses > 0 && boots >= max_losses)
    return { type: 'run.interrupted', error: gaveUpError(boots + 1) };
  if (mayResume(snapshot.context)) return { type: 'run.recovered', downtime_ms };
  return { type: 'run.interrupted', error: DAEMON_DIED };
}
