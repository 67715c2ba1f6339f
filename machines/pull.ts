import { type SnapshotFrom, setup } from 'xstate';
import type { EventOf } from '../src/contract/events.ts';
import { effect } from './effects.ts';
import type { Failure, NewEvent } from './events.ts';
import { type Deadlines, type Meta, withRules } from './machine.ts';
import { retryDelay } from './retry.ts';

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

export type PullCreated = EventOf<
  'pull.requested',
  {
    pull_id: string;
    /** The reference in the request, without its query string. */
    reference: string;
    client: string;
    /** How many attempts in a row may fail without further progress. */
    failure_limit: number;
    /** Longest silence of the hub, and of the disk. */
    idle_ms: number;
    cancel_grace_ms: number;
  }
>;

export interface PullSource {
  /** Without its query string. */
  url: string;
  /** Name of the file in the models folder. */
  file: string;
  size_bytes: number | null;
  /** The expected hash of the file; null if the hub does not publish it. */
  sha256: string | null;
  etag: string | null;
  /** Commit of the repository, if there is one. */
  revision: string | null;
  /** The other candidates, if one file of several was chosen. */
  choices: string[];
}

export type PullEvent =
  | EventOf<'pull.started', { attempt: number }>
  /** `offset_bytes` are already on disk. */
  | EventOf<'pull.resolved', { attempt: number; offset_bytes: number } & PullSource>
  | EventOf<'pull.progressed', { attempt: number; bytes: number }>
  /** All bytes are on disk. `existing`: a model of this name existed before. */
  | EventOf<'pull.downloaded', { attempt: number; bytes: number; existing: boolean }>
  | EventOf<'pull.hashed', { attempt: number; bytes: number }>
  /** `compared`: the hub has a hash, and it matches. */
  | EventOf<'pull.verified', { attempt: number; sha256: string; compared: boolean }>
  | EventOf<'pull.completed', { attempt: number; path: string }>
  | EventOf<'pull.attempt_failed', { attempt: number; error: Failure; retry_at: number }>
  | EventOf<'pull.failed', { attempt: number; error: Failure }>
  | EventOf<'pull.cancel_requested', { by: string }>
  | EventOf<'pull.cancelled', { forced: boolean }>;

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

const stopPull = {
  type: 'stopPull',
  params: ({ context: { pull_id, attempt } }: { context: PullContext }) => ({ pull_id, attempt }),
} as const;

const chart = setup({
  types: {} as { meta: Meta; context: PullContext; events: PullEvent; input: PullCreated },
  actions: { startPull: effect('startPull'), stopPull: effect('stopPull') },
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
}).createMachine({
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
      on: { 'pull.cancel_requested': 'cancelling' },
      states: {
        working: {
          meta: { isGroup: true },
          initial: 'fetching',
          on: { 'pull.failed': { guard: 'isThisAttempt', target: '#pull.failed' } },
          states: {
            fetching: {
              meta: { isGroup: true, deadline: 'silence' },
              initial: 'resolving',
              on: { 'pull.attempt_failed': { guard: 'canRetry', target: '#pull.open.backoff' } },
              states: {
                resolving: {
                  meta: { says: ['active', 'It looks for the file.'] },
                  entry: {
                    type: 'startPull',
                    params: ({ context: { pull_id, attempt } }) => ({ pull_id, attempt }),
                  },
                  on: { 'pull.resolved': { guard: 'isThisAttempt', target: 'downloading' } },
                },
                downloading: {
                  meta: { says: ['active', 'The file arrives.'] },
                  on: {
                    'pull.progressed': { guard: 'isThisAttempt' },
                    'pull.downloaded': {
                      guard: 'isThisAttempt',
                      target: '#pull.open.working.verifying',
                    },
                  },
                },
              },
            },
            verifying: {
              meta: { deadline: 'verification' },
              initial: 'hashing',
              states: {
                hashing: {
                  meta: { says: ['active', 'The file is checked.'] },
                  on: {
                    'pull.hashed': { guard: 'isThisAttempt' },
                    'pull.verified': { guard: 'isThisAttempt', target: 'placing' },
                  },
                },
                placing: {
                  meta: { says: ['active', 'The file is put into the models folder.'] },
                  on: { 'pull.completed': { guard: 'isVerified', target: '#pull.completed' } },
                },
              },
            },
          },
        },
        backoff: {
          meta: { says: ['warn', 'The download broke. It continues soon.'], deadline: 'retry' },
          entry: stopPull,
          on: { 'pull.started': { guard: 'isNextAttempt', target: 'working' } },
        },
      },
    },
    cancelling: {
      meta: { says: ['warn', 'Its work ends. The downloaded part is kept.'], deadline: 'grace' },
      entry: stopPull,
      on: {
        // The cancel came while the file moved into place, so the model is there.
        'pull.completed': { guard: 'isVerified', target: 'completed' },
        'pull.cancelled': 'cancelled',
      },
    },
    completed: { meta: { says: ['good', 'The model is there.'] }, type: 'final' },
    failed: { meta: { says: ['bad', 'The download failed.'] }, type: 'final', entry: stopPull },
    cancelled: {
      meta: { says: ['plain', 'The download was cancelled. Its part is kept.'] },
      type: 'final',
    },
  },
});

export type PullSnapshot = SnapshotFrom<typeof chart>;

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

const deadlines: Deadlines<PullSnapshot, PullEvent> = {
  silence: ({ context }) => ({
    at: context.timeout_at,
    event: afterPullFailure(context, SILENT, context.timeout_at),
  }),
  verification: ({ context: { timeout_at, attempt } }) => ({
    at: timeout_at,
    event: { type: 'pull.failed', attempt, error: STUCK },
  }),
  retry: ({ context: { timeout_at, attempt } }) => ({
    at: timeout_at,
    event: { type: 'pull.started', attempt: attempt + 1 },
  }),
  grace: ({ context }) => ({
    at: context.timeout_at,
    event: { type: 'pull.cancelled', forced: true },
  }),
};

export const pullMachine = withRules(chart, { evolve, deadlines });

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
