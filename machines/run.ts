import { assign, type SnapshotFrom, setup } from 'xstate';
import { effect } from './effects.ts';
import type { Deadline, DeadlineName, Failure, FinishReason, RunCreated, RunEvent, RunRequest, Undated, Usage } from './events.ts';
import { mayRetry } from './retry.ts';

/**
 * One prompt being answered.
 *
 * 1. A run reaches exactly one final state, by exactly one terminal fact; nothing is accepted after it.
 * 2. A fact of an attempt carries its number; one of an earlier attempt is not accepted.
 * 3. Another attempt starts only while nothing was delivered.
 * 4. Every state but the final ones has a deadline, and accepts a request to cancel or is already on its way out.
 * 5. `cancelling` ends when the work has stopped, or is given up when its grace is over.
 */

export interface RunContext {
  run_id: string;
  request: RunRequest;
  idempotency_key: string | null;
  client: string;
  max_attempts: number;
  attempt: number;
  /** Output facts of this run so far. */
  outputs: number;
  output: string;
  output_tokens: number;
  finish_reason: FinishReason | null;
  usage: Usage | null;
  error: Failure | null;
  created_at: number;
  started_at: number | null;
  first_output_at: number | null;
  ended_at: number | null;
  queue_deadline_at: number;
  deadline_at: number;
  first_output_ms: number;
  idle_ms: number;
  cancel_grace_ms: number;
  /** When the present silence (or grace, or backoff) is over. */
  quiet_until: number;
}

export const TIMEOUT_ERROR: Record<string, string> = {
  queue: 'The run waited too long in the queue.',
  total: 'The run took longer than its time limit.',
  first_output: 'The provider did not begin to answer in time.',
  idle: 'The provider stopped sending in the middle of its answer.',
};

const machine = setup({
  types: {} as { context: RunContext; events: RunEvent; input: RunCreated },
  actions: {
    startAttempt: effect('startAttempt'),
    stopAttempt: effect('stopAttempt'),
    noteStart: assign(({ context, event }) =>
      event.type === 'run.started'
        ? { attempt: event.attempt, started_at: context.started_at ?? event.at, error: null, quiet_until: event.at + context.first_output_ms }
        : {},
    ),
    appendOutput: assign(({ context, event }) =>
      event.type === 'run.output_appended'
        ? {
            outputs: context.outputs + 1,
            output: context.output + event.text,
            output_tokens: context.output_tokens + event.token_ids.length,
            first_output_at: context.first_output_at ?? event.at,
            quiet_until: event.at + context.idle_ms,
          }
        : {},
    ),
    noteCompletion: assign(({ event }) =>
      event.type === 'run.completed' ? { finish_reason: event.finish_reason, usage: event.usage, ended_at: event.at } : {},
    ),
    noteBackoff: assign(({ event }) => (event.type === 'run.attempt_failed' ? { error: event.error, quiet_until: event.retry_at } : {})),
    noteGrace: assign(({ context, event }) => ({ quiet_until: event.at + context.cancel_grace_ms })),
    noteTimeout: assign(({ event }) =>
      event.type === 'run.deadline_passed' ? { error: { code: 'run_timed_out', message: TIMEOUT_ERROR[event.deadline] ?? '', retryable: true } } : {},
    ),
    noteFailure: assign(({ event }) => ('error' in event ? { error: event.error } : {})),
    noteEnd: assign(({ event }) => ({ ended_at: event.at })),
  },
  guards: {
    isNextAttempt: ({ context, event }) => event.type === 'run.started' && event.attempt === context.attempt + 1,
    isThisAttempt: ({ context, event }) => 'attempt' in event && event.attempt === context.attempt,
    isDeadlineHere: ({ event }, params: { silence: DeadlineName }) =>
      event.type === 'run.deadline_passed' && (event.deadline === 'total' || event.deadline === params.silence),
    mayTryAgain: ({ context, event }) => event.type === 'run.attempt_failed' && event.attempt === context.attempt && mayRetry(context, event.error),
  },
});

/** Every wait of a run has its own name; the deadline of a wait that is over is not accepted. */
const timesOut = (silence: DeadlineName) =>
  ({ 'run.deadline_passed': { guard: { type: 'isDeadlineHere', params: { silence } }, target: 'cancelling.by_deadline' } }) as const;

export const runMachine = machine.createMachine({
  id: 'run',
  context: ({ input }) => ({
    run_id: input.run_id,
    request: input.request,
    idempotency_key: input.idempotency_key,
    client: input.client,
    max_attempts: input.max_attempts,
    attempt: 0,
    outputs: 0,
    output: '',
    output_tokens: 0,
    finish_reason: null,
    usage: null,
    error: null,
    created_at: input.at,
    started_at: null,
    first_output_at: null,
    ended_at: null,
    queue_deadline_at: input.queue_deadline_at,
    deadline_at: input.deadline_at,
    first_output_ms: input.first_output_ms,
    idle_ms: input.idle_ms,
    cancel_grace_ms: input.cancel_grace_ms,
    quiet_until: 0,
  }),
  initial: 'queued',
  states: {
    queued: {
      on: {
        'run.started': { guard: 'isNextAttempt', target: 'starting', actions: 'noteStart' },
        'run.failed': { guard: 'isThisAttempt', target: 'failed', actions: ['noteFailure', 'noteEnd'] },
        'run.cancel_requested': { target: 'cancelling.by_request' },
        ...timesOut('queue'),
      },
    },
    starting: {
      tags: ['active'],
      entry: { type: 'startAttempt', params: ({ context }) => ({ run_id: context.run_id, attempt: context.attempt }) },
      on: {
        'run.output_appended': { guard: 'isThisAttempt', target: 'streaming', actions: 'appendOutput' },
        'run.completed': { guard: 'isThisAttempt', target: 'completed', actions: 'noteCompletion' },
        'run.attempt_failed': { guard: 'mayTryAgain', target: 'backoff', actions: 'noteBackoff' },
        'run.failed': { guard: 'isThisAttempt', target: 'failed', actions: ['noteFailure', 'noteEnd'] },
        'run.interrupted': { target: 'interrupted', actions: ['noteFailure', 'noteEnd'] },
        'run.cancel_requested': { target: 'cancelling.by_request' },
        ...timesOut('first_output'),
        'run.interrupt_requested': { target: 'cancelling.by_stop' },
      },
    },
    streaming: {
      tags: ['active'],
      on: {
        'run.output_appended': { guard: 'isThisAttempt', actions: 'appendOutput' },
        'run.completed': { guard: 'isThisAttempt', target: 'completed', actions: 'noteCompletion' },
        'run.failed': { guard: 'isThisAttempt', target: 'failed', actions: ['noteFailure', 'noteEnd'] },
        'run.interrupted': { target: 'interrupted', actions: ['noteFailure', 'noteEnd'] },
        'run.cancel_requested': { target: 'cancelling.by_request' },
        ...timesOut('idle'),
        'run.interrupt_requested': { target: 'cancelling.by_stop' },
      },
    },
    backoff: {
      tags: ['active'],
      on: {
        'run.started': { guard: 'isNextAttempt', target: 'starting', actions: 'noteStart' },
        'run.interrupted': { target: 'interrupted', actions: ['noteFailure', 'noteEnd'] },
        'run.cancel_requested': { target: 'cancelling.by_request' },
        ...timesOut('total'),
        'run.interrupt_requested': { target: 'cancelling.by_stop' },
      },
    },
    cancelling: {
      tags: ['active'],
      initial: 'by_request',
      states: {
        by_request: {
          entry: ['noteGrace', { type: 'stopAttempt', params: ({ context }) => ({ run_id: context.run_id, outcome: 'cancelled' }) }],
          on: { 'run.cancelled': { target: '#run.cancelled', actions: 'noteEnd' } },
        },
        by_deadline: {
          entry: ['noteGrace', 'noteTimeout', { type: 'stopAttempt', params: ({ context }) => ({ run_id: context.run_id, outcome: 'timed_out' }) }],
          on: { 'run.timed_out': { target: '#run.timed_out', actions: 'noteEnd' } },
        },
        by_stop: {
          entry: ['noteGrace', { type: 'stopAttempt', params: ({ context }) => ({ run_id: context.run_id, outcome: 'interrupted' }) }],
          on: { 'run.interrupted': { target: '#run.interrupted', actions: ['noteFailure', 'noteEnd'] } },
        },
      },
    },
    completed: { type: 'final' },
    failed: { type: 'final' },
    cancelled: { type: 'final' },
    timed_out: { type: 'final' },
    interrupted: { type: 'final' },
  },
});

export type RunSnapshot = SnapshotFrom<typeof runMachine>;

export const DAEMON_STOPPING: Failure = {
  code: 'run_interrupted',
  message: 'The daemon stopped before the answer was complete.',
  retryable: true,
};

/** What happens by itself if nothing else does. */
export function runDeadlines(snapshot: RunSnapshot): Deadline<RunEvent>[] {
  const { context } = snapshot;
  const passed = (at: number, deadline: DeadlineName): Deadline<RunEvent> => ({
    at,
    event: { type: 'run.deadline_passed', deadline },
  });
  const total = passed(context.deadline_at, 'total');
  if (snapshot.matches('queued')) return [passed(context.queue_deadline_at, 'queue'), total];
  if (snapshot.matches('starting')) return [passed(context.quiet_until, 'first_output'), total];
  if (snapshot.matches('streaming')) return [passed(context.quiet_until, 'idle'), total];
  if (snapshot.matches('backoff')) return [{ at: context.quiet_until, event: { type: 'run.started', attempt: context.attempt + 1 } }, total];
  const end = terminalOf(snapshot, true);
  return end === null ? [] : [{ at: context.quiet_until, event: end }];
}

/** The fact that ends a run whose work is stopping; null in any other state. */
export function terminalOf(snapshot: RunSnapshot, forced: boolean): Undated<RunEvent> | null {
  if (snapshot.matches({ cancelling: 'by_request' })) return { type: 'run.cancelled', forced };
  if (snapshot.matches({ cancelling: 'by_deadline' })) return { type: 'run.timed_out', forced };
  if (snapshot.matches({ cancelling: 'by_stop' })) return { type: 'run.interrupted', error: DAEMON_STOPPING };
  return null;
}

/**
 * What becomes of a run that the last boot left unfinished.
 *
 * 1. Queued: nothing was asked of anybody; it stays queued (null).
 * 2. Its work was being stopped: the work died with the process, so the end it was waiting for has come.
 * 3. Anything else was cut off: interrupted, with the text that is on disk.
 */
export function afterCrash(snapshot: RunSnapshot): Undated<RunEvent> | null {
  if (snapshot.status !== 'active' || snapshot.matches('queued')) return null;
  return (
    terminalOf(snapshot, false) ?? {
      type: 'run.interrupted',
      error: { code: 'run_interrupted', message: 'The daemon died before the answer was complete.', retryable: true },
    }
  );
}
