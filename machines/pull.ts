import { assign, type SnapshotFrom, setup } from 'xstate';
import { effect } from './effects.ts';
import type { Deadline, Failure, NewEvent, PullCreated, PullEvent, PullSource } from './events.ts';
import { retryDelay } from './retry.ts';
import { isIn } from './step.ts';

/**
 * The download of one model into the models folder.
 *
 * 1. An event of an attempt carries its number. Events of earlier attempts are refused.
 * 2. A model is in the folder only after `pull.verified`: only then `pull.completed` is accepted.
 * 3. Attempts that get further than all before them are not limited. The others are counted.
 * 4. Every state but the final ones has a deadline. It accepts a cancel, or already leads to an
 *    end.
 * 5. `cancelling` ends when the work has stopped, or when its grace time is over.
 */

export interface PullContext {
  pull_id: string;
  reference: string;
  client: string;
  failure_limit: number;
  idle_ms: number;
  cancel_grace_ms: number;
  attempt: number;
  /** Failed attempts in a row that got no further, up to the limit. */
  failures: number;
  source: PullSource | null;
  /** Bytes on disk when this attempt began. */
  offset_bytes: number;
  /** Bytes on disk. */
  bytes: number;
  /** The most bytes that an attempt had on disk. */
  bytes_most: number;
  hashed_bytes: number;
  existing: boolean;
  sha256: string | null;
  compared: boolean;
  path: string | null;
  error: Failure | null;
  cancelled_by: string | null;
  requested_at: number;
  ended_at: number | null;
  /** When the current wait ends: for bytes, for the next attempt, or for the work to stop. */
  timeout_at: number;
}

const { createMachine } = setup({
  types: {} as { context: PullContext; events: PullEvent; input: PullCreated },
  actions: {
    startPull: effect('startPull'),
    stopPull: effect('stopPull'),
    evolve: assign(({ context, event }) => evolve(context, event)),
  },
  guards: {
    isNextAttempt: ({ context, event }) =>
      event.type === 'pull.started' && event.attempt === context.attempt + 1,
    isThisAttempt: ({ context, event }) => 'attempt' in event && event.attempt === context.attempt,
    isVerified: ({ context, event }) =>
      event.type === 'pull.completed' &&
      event.attempt === context.attempt &&
      context.sha256 !== null,
    canRetry: ({ context, event }) =>
      event.type === 'pull.attempt_failed' &&
      event.attempt === context.attempt &&
      canRetryPull(context, event.error),
  },
});

export const pullMachine = createMachine({
  id: 'pull',
  context: ({ input }) => ({
    pull_id: input.pull_id,
    reference: input.reference,
    client: input.client,
    failure_limit: input.failure_limit,
    idle_ms: input.idle_ms,
    cancel_grace_ms: input.cancel_grace_ms,
    attempt: 1,
    failures: 0,
    source: null,
    offset_bytes: 0,
    bytes: 0,
    bytes_most: 0,
    hashed_bytes: 0,
    existing: false,
    sha256: null,
    compared: false,
    path: null,
    error: null,
    cancelled_by: null,
    requested_at: input.at,
    ended_at: null,
    timeout_at: input.at + input.idle_ms,
  }),
  initial: 'open',
  states: {
    open: {
      meta: { isGroup: true },
      initial: 'working',
      on: { 'pull.cancel_requested': { target: 'cancelling', actions: 'evolve' } },
      states: {
        working: {
          meta: { isGroup: true },
          initial: 'fetching',
          on: {
            'pull.failed': { guard: 'isThisAttempt', target: '#pull.failed', actions: 'evolve' },
          },
          states: {
            fetching: {
              meta: { isGroup: true },
              initial: 'resolving',
              on: {
                'pull.attempt_failed': {
                  guard: 'canRetry',
                  target: '#pull.open.backoff',
                  actions: 'evolve',
                },
              },
              states: {
                resolving: {
                  entry: {
                    type: 'startPull',
                    params: ({ context: { pull_id, attempt } }) => ({ pull_id, attempt }),
                  },
                  on: {
                    'pull.resolved': {
                      guard: 'isThisAttempt',
                      target: 'downloading',
                      actions: 'evolve',
                    },
                  },
                },
                downloading: {
                  on: {
                    'pull.progressed': { guard: 'isThisAttempt', actions: 'evolve' },
                    'pull.downloaded': {
                      guard: 'isThisAttempt',
                      target: '#pull.open.working.verifying',
                      actions: 'evolve',
                    },
                  },
                },
              },
            },
            verifying: {
              initial: 'hashing',
              states: {
                hashing: {
                  on: {
                    'pull.hashed': { guard: 'isThisAttempt', actions: 'evolve' },
                    'pull.verified': {
                      guard: 'isThisAttempt',
                      target: 'placing',
                      actions: 'evolve',
                    },
                  },
                },
                placing: {
                  on: {
                    'pull.completed': {
                      guard: 'isVerified',
                      target: '#pull.completed',
                      actions: 'evolve',
                    },
                  },
                },
              },
            },
          },
        },
        backoff: {
          entry: {
            type: 'stopPull',
            params: ({ context: { pull_id, attempt } }) => ({ pull_id, attempt }),
          },
          on: { 'pull.started': { guard: 'isNextAttempt', target: 'working', actions: 'evolve' } },
        },
      },
    },
    cancelling: {
      entry: {
        type: 'stopPull',
        params: ({ context: { pull_id, attempt } }) => ({ pull_id, attempt }),
      },
      on: {
        // The cancel came while the file moved into place, so the model is there.
        'pull.completed': { guard: 'isVerified', target: 'completed', actions: 'evolve' },
        'pull.cancelled': { target: 'cancelled', actions: 'evolve' },
      },
    },
    completed: { type: 'final' },
    failed: {
      type: 'final',
      entry: {
        type: 'stopPull',
        params: ({ context: { pull_id, attempt } }) => ({ pull_id, attempt }),
      },
    },
    cancelled: { type: 'final' },
  },
});

export type PullSnapshot = SnapshotFrom<typeof pullMachine>;

/** What an event changes, whatever the state is. */
function evolve(context: PullContext, event: PullEvent): Partial<PullContext> {
  const timeout_at = event.at + context.idle_ms;
  switch (event.type) {
    case 'pull.started':
      return { attempt: event.attempt, error: null, timeout_at };
    case 'pull.resolved': {
      const { type: _, at: __, attempt: ___, offset_bytes, ...source } = event;
      return { source, offset_bytes, ...progress(context, offset_bytes), timeout_at };
    }
    case 'pull.progressed':
      return { ...progress(context, event.bytes), timeout_at };
    case 'pull.downloaded':
      return { bytes: event.bytes, existing: event.existing, hashed_bytes: 0, timeout_at };
    case 'pull.hashed':
      return { hashed_bytes: event.bytes, timeout_at };
    case 'pull.verified':
      return { sha256: event.sha256, compared: event.compared, timeout_at };
    case 'pull.completed':
      return { path: event.path, ended_at: event.at };
    case 'pull.attempt_failed':
      return {
        failures: Math.min(context.failure_limit, context.failures + 1),
        error: event.error,
        timeout_at: event.retry_at,
      };
    case 'pull.failed':
      return { error: event.error, ended_at: event.at };
    case 'pull.cancel_requested':
      return { cancelled_by: event.by, timeout_at: event.at + context.cancel_grace_ms };
    case 'pull.cancelled':
      return { ended_at: event.at };
    default:
      return event satisfies never;
  }
}

/** An attempt that gets further than all before it clears the count of failures. */
function progress({ bytes_most }: PullContext, bytes: number): Partial<PullContext> {
  return bytes > bytes_most ? { bytes, bytes_most: bytes, failures: 0 } : { bytes };
}

const SILENT: Failure = {
  code: 'pull_failed',
  message: 'The other side stopped sending.',
  retryable: true,
};
const STUCK: Failure = {
  code: 'pull_failed',
  message: 'The disk did not give the file back in time for it to be verified.',
  retryable: true,
};

/** The events that the kernel appends when their time comes, unless the state changes first. */
export function pullDeadlines(snapshot: PullSnapshot): Deadline<PullEvent>[] {
  const { context } = snapshot;
  const { timeout_at: at, attempt } = context;
  if (isIn(snapshot, 'fetching')) return [{ at, event: afterPullFailure(context, SILENT, at) }];
  if (isIn(snapshot, 'verifying'))
    return [{ at, event: { type: 'pull.failed', attempt, error: STUCK } }];
  if (isIn(snapshot, 'backoff'))
    return [{ at, event: { type: 'pull.started', attempt: attempt + 1 } }];
  if (isIn(snapshot, 'cancelling'))
    return [{ at, event: { type: 'pull.cancelled', forced: true } }];
  return [];
}

/** The event for a failed attempt: a retry after a wait, or the end. */
export function afterPullFailure(
  context: PullContext,
  error: Failure,
  now: number,
  asked_ms: number | null = null,
): NewEvent<PullEvent> {
  const { attempt } = context;
  if (!canRetryPull(context, error)) return { type: 'pull.failed', attempt, error };
  return {
    type: 'pull.attempt_failed',
    attempt,
    error,
    retry_at: now + retryDelay(context.failures + 1, asked_ms),
  };
}

export function canRetryPull(context: PullContext, error: Failure): boolean {
  return error.retryable && context.failures + 1 < context.failure_limit;
}
