import type { Deadline, DeadlineName, Failure, NewEvent, RunEvent } from './events.ts';
import { canResume } from './retry.ts';
import type { RunSnapshot } from './run.ts';

/** What comes next for a run: by itself in its time, when its work has stopped, and after a crash. */

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

const CONTENT_NOT_KEPT: Failure = {
  code: 'content_not_kept',
  message:
    'The daemon died before the answer was complete, and what was asked or answered is not kept in the log.',
  retryable: true,
};

/** The fact that begins the next attempt. */
export function nextAttempt({ context }: RunSnapshot): NewEvent<RunEvent> {
  return {
    type: 'run.started',
    attempt: context.attempt + 1,
    resumes: context.outputs > 0 && context.recovery === 'resume',
  };
}

/** What happens by itself if nothing else does. */
export function runDeadlines(snapshot: RunSnapshot): Deadline<RunEvent>[] {
  const { context } = snapshot;
  const passed = (at: number, deadline: DeadlineName): Deadline<RunEvent> => ({
    at,
    event: { type: 'run.deadline_passed', deadline },
  });
  const total = passed(context.deadline_at, 'total');
  if (snapshot.matches('queued')) return [passed(context.queue_deadline_at, 'queue'), total];
  if (snapshot.matches('starting')) return [passed(context.timeout_at, 'first_output'), total];
  if (snapshot.matches('streaming')) return [passed(context.timeout_at, 'idle'), total];
  if (snapshot.matches('backoff'))
    return [{ at: context.timeout_at, event: nextAttempt(snapshot) }, total];
  if (snapshot.matches('suspended')) return [total];
  const end = terminalOf(snapshot, true);
  return end === null ? [] : [{ at: context.timeout_at, event: end }];
}

/** The fact that ends the stopping of a run's work; null in any other state. A run that is handed over lives on. */
export function terminalOf(snapshot: RunSnapshot, forced: boolean): NewEvent<RunEvent> | null {
  if (snapshot.matches({ cancelling: 'by_request' })) return { type: 'run.cancelled', forced };
  if (snapshot.matches({ cancelling: 'by_deadline' })) return { type: 'run.timed_out', forced };
  if (!snapshot.matches({ cancelling: 'by_stop' })) return null;
  const { context } = snapshot;
  return context.content_kept && canResume(context)
    ? { type: 'run.suspended', attempt: context.attempt, error: DAEMON_STOPPING }
    : { type: 'run.interrupted', error: DAEMON_STOPPING };
}

/**
 * What becomes of a run that an earlier life of the daemon left unfinished; null for a finished one.
 *
 * 1. Its work was being stopped for a cancel or a deadline: the work died with the process, so that end has come.
 * 2. What was asked or answered is not in the log: nobody can answer it any more.
 * 3. It waited, or may go on as its policy says: it is recovered.
 * 4. Anything else was cut off: interrupted, with the text that is on disk.
 */
export function afterCrash(snapshot: RunSnapshot, downtime_ms: number): NewEvent<RunEvent> | null {
  if (snapshot.status !== 'active') return null;
  const end = snapshot.matches({ cancelling: 'by_stop' }) ? null : terminalOf(snapshot, false);
  if (end !== null) return end;
  if (!snapshot.context.content_kept) return { type: 'run.interrupted', error: CONTENT_NOT_KEPT };
  if (snapshot.matches('queued') || snapshot.matches('suspended') || canResume(snapshot.context))
    return { type: 'run.recovered', downtime_ms };
  return { type: 'run.interrupted', error: DAEMON_DIED };
}
