import { assign, type SnapshotFrom, setup } from 'xstate';
import { effect } from './effects.ts';
import type { DeadlineName, RunCreated, RunEvent } from './events.ts';
import { canResume, canRetry, isToBlame } from './retry.ts';
import { newContext, type RunContext } from './run-context.ts';

/**
 * One prompt being answered.
 *
 * 1. A run reaches exactly one final state, by exactly one terminal fact; nothing is accepted after it.
 * 2. A fact of an attempt carries its number; one of an earlier attempt is not accepted.
 * 3. Another attempt starts only while nothing was delivered, or goes on after what was, or discards it where the policy of the run says so.
 * 4. Every state but the final ones has a deadline, and accepts a request to cancel or is already on its way out.
 * 5. `cancelling` ends when the work has stopped, or is given up when its grace is over.
 * 6. `suspended` has no work behind it: the run waits for a place, in this life of the daemon or in the next.
 * 7. Only deaths of the engine with no other run to blame end a run before its time. The death of the daemon does not: no run can cause it.
 * 8. A run that the engine computed when it died is isolated for good, so that the next death has one cause.
 */

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
        ? {
            attempt: event.attempt,
            started_at: context.started_at ?? event.at,
            error: null,
            timeout_at: event.at + context.first_output_ms,
            ...(event.resumes ? {} : { outputs: 0, output: '', output_tokens: 0, threads: null }),
          }
        : {},
    ),
    appendOutput: assign(({ context, event }) =>
      event.type === 'run.output_appended'
        ? {
            outputs: context.outputs + 1,
            output: context.output + event.text,
            output_tokens: context.output_tokens + event.token_ids.length,
            content_kept: context.content_kept && event.offset === undefined,
            threads: event.threads ?? context.threads,
            first_output_at: context.first_output_at ?? event.at,
            ...(context.recovery === 'resume' ? { losses: 0, deaths: 0 } : {}),
            timeout_at: event.at + context.idle_ms,
          }
        : {},
    ),
    noteCompletion: assign(({ event }) =>
      event.type === 'run.completed'
        ? { finish_reason: event.finish_reason, usage: event.usage, ended_at: event.at }
        : {},
    ),
    noteBackoff: assign(({ context, event }) =>
      event.type === 'run.attempt_failed'
        ? { failures: context.failures + 1, error: event.error, timeout_at: event.retry_at }
        : {},
    ),
    noteLoss: assign(({ context }) => ({ losses: context.losses + 1 })),
    noteDeath: assign(({ context, event }) =>
      event.type === 'run.suspended'
        ? {
            deaths: context.deaths + (isToBlame(event.computing) ? 1 : 0),
            isolated: context.isolated || (event.computing ?? 0) > 0,
          }
        : {},
    ),
    noteSuspension: assign(({ event }) =>
      event.type === 'run.suspended' ? { error: event.error } : {},
    ),
    noteDowntime: assign(({ context, event }) =>
      event.type === 'run.recovered'
        ? {
            queue_deadline_at: context.queue_deadline_at + event.downtime_ms,
            deadline_at: context.deadline_at + event.downtime_ms,
            timeout_at: context.timeout_at + event.downtime_ms,
          }
        : {},
    ),
    noteWithdrawal: assign(({ event }) =>
      event.type === 'run.cancel_requested' && event.by === CANCELLED_BY_DISK_FULL
        ? { withdrawn: true }
        : {},
    ),
    noteGrace: assign(({ context, event }) => ({
      timeout_at: event.at + context.cancel_grace_ms,
    })),
    noteTimeout: assign(({ event }) =>
      event.type === 'run.deadline_passed'
        ? {
            error: {
              code: 'run_timed_out',
              message: TIMEOUT_ERROR[event.deadline] ?? '',
              retryable: true,
            },
          }
        : {},
    ),
    noteFailure: assign(({ event }) => ('error' in event ? { error: event.error } : {})),
    noteEnd: assign(({ event }) => ({ ended_at: event.at })),
  },
  guards: {
    isNextAttempt: ({ context, event }) =>
      event.type === 'run.started' && event.attempt === context.attempt + 1,
    isThisAttempt: ({ context, event }) => 'attempt' in event && event.attempt === context.attempt,
    isDeadlineHere: ({ event }, params: { silence: DeadlineName }) =>
      event.type === 'run.deadline_passed' &&
      (event.deadline === 'total' || event.deadline === params.silence),
    canResume: ({ context }) => canResume(context),
    canResumeAttempt: ({ context, event }) =>
      'attempt' in event && event.attempt === context.attempt && canResume(context),
    canRetry: ({ context, event }) =>
      event.type === 'run.attempt_failed' &&
      event.attempt === context.attempt &&
      canRetry(context, event.error),
  },
});

/** Who cancels a run that the daemon takes back: it was refused after all. */
export const CANCELLED_BY_DISK_FULL = 'store_full';

/** Every wait of a run has its own name; the deadline of a wait that is over is not accepted. */
const timesOut = (silence: DeadlineName) =>
  ({
    'run.deadline_passed': {
      guard: { type: 'isDeadlineHere', params: { silence } },
      target: 'cancelling.by_deadline',
    },
  }) as const;
const cancels = {
  'run.cancel_requested': { target: 'cancelling.by_request', actions: 'noteWithdrawal' },
} as const;
const isLost = {
  'run.suspended': {
    guard: 'canResumeAttempt',
    target: 'suspended',
    actions: ['noteLoss', 'noteDeath', 'noteSuspension'],
  },
} as const;
const isCutOff = {
  'run.recovered': {
    guard: 'canResume',
    target: 'suspended',
    actions: ['noteLoss', 'noteDowntime'],
  },
  'run.interrupted': { target: 'interrupted', actions: ['noteFailure', 'noteEnd'] },
  'run.interrupt_requested': { target: 'cancelling.by_stop' },
} as const;

export const runMachine = machine.createMachine({
  id: 'run',
  context: ({ input }) => newContext(input),
  initial: 'queued',
  states: {
    queued: {
      on: {
        'run.started': { guard: 'isNextAttempt', target: 'starting', actions: 'noteStart' },
        'run.recovered': { actions: 'noteDowntime' },
        'run.interrupted': { target: 'interrupted', actions: ['noteFailure', 'noteEnd'] },
        ...cancels,
        ...timesOut('queue'),
      },
    },
    starting: {
      tags: ['active'],
      entry: {
        type: 'startAttempt',
        params: ({ context }) => ({ run_id: context.run_id, attempt: context.attempt }),
      },
      on: {
        'run.output_appended': {
          guard: 'isThisAttempt',
          target: 'streaming',
          actions: 'appendOutput',
        },
        'run.completed': { guard: 'isThisAttempt', target: 'completed', actions: 'noteCompletion' },
        'run.attempt_failed': { guard: 'canRetry', target: 'backoff', actions: 'noteBackoff' },
        'run.failed': {
          guard: 'isThisAttempt',
          target: 'failed',
          actions: ['noteFailure', 'noteEnd'],
        },
        ...isLost,
        ...isCutOff,
        ...cancels,
        ...timesOut('first_output'),
      },
    },
    streaming: {
      tags: ['active'],
      on: {
        'run.output_appended': { guard: 'isThisAttempt', actions: 'appendOutput' },
        'run.completed': { guard: 'isThisAttempt', target: 'completed', actions: 'noteCompletion' },
        'run.failed': {
          guard: 'isThisAttempt',
          target: 'failed',
          actions: ['noteFailure', 'noteEnd'],
        },
        ...isLost,
        ...isCutOff,
        ...cancels,
        ...timesOut('idle'),
      },
    },
    backoff: {
      tags: ['active'],
      on: {
        'run.started': { guard: 'isNextAttempt', target: 'starting', actions: 'noteStart' },
        ...isCutOff,
        ...cancels,
        ...timesOut('total'),
      },
    },
    suspended: {
      on: {
        'run.started': { guard: 'isNextAttempt', target: 'starting', actions: 'noteStart' },
        'run.recovered': { actions: 'noteDowntime' },
        ...cancels,
        ...timesOut('total'),
      },
    },
    cancelling: {
      tags: ['active'],
      initial: 'by_request',
      states: {
        by_request: {
          entry: [
            'noteGrace',
            {
              type: 'stopAttempt',
              params: ({ context }) => ({ run_id: context.run_id, outcome: 'cancelled' }),
            },
          ],
          on: { 'run.cancelled': { target: '#run.cancelled', actions: 'noteEnd' } },
        },
        by_deadline: {
          entry: [
            'noteGrace',
            'noteTimeout',
            {
              type: 'stopAttempt',
              params: ({ context }) => ({ run_id: context.run_id, outcome: 'timed_out' }),
            },
          ],
          on: { 'run.timed_out': { target: '#run.timed_out', actions: 'noteEnd' } },
        },
        by_stop: {
          entry: [
            'noteGrace',
            {
              type: 'stopAttempt',
              params: ({ context }) => ({ run_id: context.run_id, outcome: 'interrupted' }),
            },
          ],
          on: {
            // A run that would be handed over can still be cancelled.
            'run.cancel_requested': { target: 'by_request', actions: 'noteWithdrawal' },
            'run.suspended': {
              guard: 'canResumeAttempt',
              target: '#run.suspended',
              actions: 'noteSuspension',
            },
            'run.recovered': {
              guard: 'canResume',
              target: '#run.suspended',
              actions: 'noteDowntime',
            },
            'run.interrupted': { target: '#run.interrupted', actions: ['noteFailure', 'noteEnd'] },
          },
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
