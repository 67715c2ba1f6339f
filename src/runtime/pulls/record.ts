import type { PullSnapshot } from '../../../machines/pull.ts';
import { isIn, stateName } from '../../../machines/step.ts';
import { type ErrorBody, fromBody, SvcError } from '../../errors.ts';
import { isoTime } from '../../kernel/clock.ts';
import type { ModelRecord } from '../../providers/port.ts';

/** A model being fetched, as users see it. */
export interface PullRecord {
  id: string;
  /** `resolving`, `downloading`, `backoff`, `verifying`, `cancelling`, then one of `completed`, `failed`, `cancelled`. */
  state: string;
  reference: string;
  /** Name of the file in the models folder; null while it is not known. */
  file: string | null;
  url: string | null;
  /** Commit of the repository. */
  revision: string | null;
  /** Other models that the repository has, when one was chosen. */
  choices: string[];
  size_bytes: number | null;
  /** Of these from before: the attempt went on from there. */
  offset_bytes: number;
  /** On disk; of a model that was there before, all of it. */
  bytes: number;
  /** Of these verified. */
  hashed_bytes: number;
  /** A model of this name was there before: nothing is fetched. */
  existing: boolean;
  /** Of the whole file, once it was hashed. */
  sha256: string | null;
  /** True: it hashes to what it should. False: nobody says what it should hash to. Null: not yet known. */
  verified: boolean | null;
  attempt: number;
  /** Why the last attempt failed. */
  error: ErrorBody | null;
  /** When the next attempt begins. */
  retry_at: string | null;
  /** Once it is completed. */
  model: ModelRecord | null;
}

export function pullRecord(snapshot: PullSnapshot, model: ModelRecord | null): PullRecord {
  const { context } = snapshot;
  const { source, error } = context;
  return {
    id: context.pull_id,
    state: stateName(snapshot),
    reference: context.reference,
    file: source?.file ?? null,
    url: source?.url ?? null,
    revision: source?.revision ?? null,
    choices: source?.choices ?? [],
    size_bytes: source?.size_bytes ?? null,
    offset_bytes: context.offset_bytes,
    bytes: context.bytes,
    hashed_bytes: context.hashed_bytes,
    existing: context.existing,
    sha256: context.sha256,
    verified: context.sha256 === null ? null : context.compared,
    attempt: context.attempt,
    error: error === null ? null : fromBody(error).body(),
    retry_at: isIn(snapshot, 'backoff') ? isoTime(context.timeout_at) : null,
    model,
  };
}

/** What a pull that ended without a model is to those who waited for it; null for any other. */
export function pullError(snapshot: PullSnapshot): SvcError | null {
  const { error, cancelled_by, source } = snapshot.context;
  const kept = source === null ? '' : ' What was fetched is kept.';
  if (isIn(snapshot, 'cancelled') && cancelled_by === DAEMON_STOPPING)
    return new SvcError(
      'daemon_stopping',
      `The daemon stopped before the model was there.${kept}`,
      {
        hint: 'Start it again with svc start, and run the command again: it goes on where it stopped.',
      },
    );
  if (isIn(snapshot, 'cancelled'))
    return new SvcError('pull_cancelled', `Fetching the model was cancelled.${kept}`);
  if (isIn(snapshot, 'failed')) return fromBody(error ?? {});
  return null;
}

/** Who cancels pulls when the daemon stops. */
export const DAEMON_STOPPING = 'daemon_stopping';
