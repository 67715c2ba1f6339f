import { assign, type SnapshotFrom, setup } from 'xstate';
import { effect } from './effects.ts';
import type { Deadline, Failure, NewEvent, PullCreated, PullEvent, PullSource } from './events.ts';
import { retryDelay } from './retry.ts';

/**
 * One model being fetched into the models folder.
 *
 * 1. A fact of an attempt carries its number; one of an earlier attempt is not accepted.
 * 2. A model is in the folder only after `pull.verified`: nothing else leads to `pull.completed`.
 * 3. Attempts that get further than any before them may be many; those that do not are counted and bounded.
 * 4. Every state but the final ones has a deadline, and accepts a request to cancel or is already on its way out.
 * 5. `cancelling` ends when the work has stopped, or is given up when its grace is over.
 */

export interface PullContext {
  pull_id: string;
  reference: string;
  client: string;
  failure_limit: number;
  idle_ms: number;
  cancel_grace_ms: number;
  attempt: number;
  /** Attempts in a row that failed and got no further, saturating at the limit. */
  failures: number;
  source: PullSource | null;
  /** Bytes that were on disk when this attempt began. */
  offset_bytes: number;
  /** Bytes on disk. */
  bytes: number;
  /** The most that any attempt had on disk. */
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
  /** When the present silence (or grace, or backoff) is over. */
  timeout_at: number;
}

const machine = setup({
  types: {} as { context: PullContext; events: PullEvent; input: PullCreated },
  actions: {
    startPull: effect('startPull'),
    stopPull: effect('stopPull'),
    noteStart: assign(({ event }) =>
      event.type === 'pull.started' ? { attempt: event.attempt, error: null } : {},
    ),
    noteSource: assign(({ context, event }) => {
      if (event.type !== 'pull.resolved') return {};
      const { type: _, at: __, attempt: ___, offset_bytes, ...source } = event;
      const further = offset_bytes > context.bytes_most;
      return {
        source,
        offset_bytes,
        bytes: offset_bytes,
        ...(further ? { bytes_most: offset_bytes, failures: 0 } : {}),
      };
    }),
    noteProgress: assign(({ context, event }) => {
      if (event.type !== 'pull.progressed') return {};
      return event.bytes > context.bytes_most
        ? { bytes: event.bytes, bytes_most: event.bytes, failures: 0 }
        : { bytes: event.bytes };
    }),
    noteDownload: assign(({ event }) =>
      event.type === 'pull.downloaded'
        ? { bytes: event.bytes, existing: event.existing, hashed_bytes: 0 }
        : {},
    ),
    noteHashed: assign(({ event }) =>
      event.type === 'pull.hashed' ? { hashed_bytes: event.bytes } : {},
    ),
    noteHash: assign(({ event }) =>
      event.type === 'pull.verified' ? { sha256: event.sha256, compared: event.compared } : {},
    ),
    noteCompletion: assign(({ event }) =>
      event.type === 'pull.completed' ? { path: event.path, ended_at: event.at } : {},
    ),
    noteBackoff: assign(({ context, event }) =>
      event.type === 'pull.attempt_failed'
        ? {
            failures: Math.min(context.failure_limit, context.failures + 1),
            error: event.error,
            timeout_at: event.retry_at,
          }
        : {},
    ),
    noteFailure: assign(({ event }) => ('error' in event ? { error: event.error } : {})),
    noteCancel: assign(({ event }) =>
      event.type === 'pull.cancel_requested' ? { cancelled_by: event.by } : {},
    ),
    noteGrace: assign(({ context, event }) => ({
      timeout_at: event.at + context.cancel_grace_ms,
    })),
    noteLife: assign(({ context, event }) => ({ timeout_at: event.at + context.idle_ms })),
    noteEnd: assign(({ event }) => ({ ended_at: event.at })),
  },
  guards: {
    isNextAttempt: ({ context, event }) =>
      event.type === 'pull.started' && event.attempt === context.attempt + 1,
    isVerified: ({ context, event }) =>
      event.type === 'pull.completed' &&
      event.attempt === context.attempt &&
      context.sha256 !== null,
    isThisAttempt: ({ context, event }) => 'attempt' in event && event.attempt === context.attempt,
    canRetry: ({ context, event }) =>
      event.type === 'pull.attempt_failed' &&
      event.attempt === context.attempt &&
      canRetryPull(context, event.error),
  },
});

const cancels = {
  'pull.cancel_requested': { target: '#pull.cancelling', actions: 'noteCancel' },
} as const;
const fails = {
  'pull.failed': {
    guard: 'isThisAttempt',
    target: '#pull.failed',
    actions: ['noteFailure', 'noteEnd'],
  },
} as const;
const triesAgain = {
  'pull.attempt_failed': { guard: 'canRetry', target: '#pull.backoff', actions: 'noteBackoff' },
} as const;
const completes = {
  'pull.completed': { guard: 'isVerified', target: '#pull.completed', actions: 'noteCompletion' },
} as const;

export const pullMachine = machine.createMachine({
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
  initial: 'resolving',
  states: {
    resolving: {
      entry: {
        type: 'startPull',
        params: ({ context }) => ({ pull_id: context.pull_id, attempt: context.attempt }),
      },
      on: {
        'pull.resolved': {
          guard: 'isThisAttempt',
          target: 'downloading',
          actions: ['noteSource', 'noteLife'],
        },
        ...triesAgain,
        ...fails,
        ...cancels,
      },
    },
    downloading: {
      on: {
        'pull.progressed': { guard: 'isThisAttempt', actions: ['noteProgress', 'noteLife'] },
        'pull.downloaded': {
          guard: 'isThisAttempt',
          target: 'verifying',
          actions: ['noteDownload', 'noteLife'],
        },
        ...triesAgain,
        ...fails,
        ...cancels,
      },
    },
    backoff: {
      entry: {
        type: 'stopPull',
        params: ({ context }) => ({ pull_id: context.pull_id, attempt: context.attempt }),
      },
      on: {
        'pull.started': {
          guard: 'isNextAttempt',
          target: 'resolving',
          actions: ['noteStart', 'noteLife'],
        },
        ...cancels,
      },
    },
    verifying: {
      initial: 'hashing',
      on: { ...fails, ...cancels },
      states: {
        hashing: {
          on: {
            'pull.hashed': { guard: 'isThisAttempt', actions: ['noteHashed', 'noteLife'] },
            'pull.verified': {
              guard: 'isThisAttempt',
              target: 'placing',
              actions: ['noteHash', 'noteLife'],
            },
          },
        },
        placing: { on: { ...completes } },
      },
    },
    cancelling: {
      entry: [
        'noteGrace',
        {
          type: 'stopPull',
          params: ({ context }) => ({ pull_id: context.pull_id, attempt: context.attempt }),
        },
      ],
      // A cancel that came when the file was moved into place: the truth is that it is there.
      on: { ...completes, 'pull.cancelled': { target: 'cancelled', actions: 'noteEnd' } },
    },
    completed: { type: 'final' },
    failed: {
      type: 'final',
      entry: {
        type: 'stopPull',
        params: ({ context }) => ({ pull_id: context.pull_id, attempt: context.attempt }),
      },
    },
    cancelled: { type: 'final' },
  },
});

export type PullSnapshot = SnapshotFrom<typeof pullMachine>;

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

/** What happens by itself if nothing else does. */
export function pullDeadlines(snapshot: PullSnapshot): Deadline<PullEvent>[] {
  const { context } = snapshot;
  const { timeout_at: at, attempt } = context;
  if (snapshot.matches('resolving') || snapshot.matches('downloading'))
    return [{ at, event: afterPullFailure(context, SILENT, at) }];
  if (snapshot.matches('verifying'))
    return [{ at, event: { type: 'pull.failed', attempt, error: STUCK } }];
  if (snapshot.matches('backoff'))
    return [{ at, event: { type: 'pull.started', attempt: attempt + 1 } }];
  if (snapshot.matches('cancelling'))
    return [{ at, event: { type: 'pull.cancelled', forced: true } }];
  return [];
}

/** The fact that a failed attempt leads to: another one after a wait, or the end. */
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
