import type { PullSnapshot } from '../../../machines/pull.ts';
import { isIn, stateName } from '../../../machines/step.ts';
import { isoTime } from '../../async/clock.ts';
import type { Fit, ModelRecord } from '../../contract/model-record.ts';
import { type ErrorBody, errors, fromBody, SvcError } from '../../errors.ts';

/** A pull, as users see it. */
export interface PullRecord {
  id: string;
  /**
   * `resolving`, `downloading`, `backoff`, `verifying` or `cancelling`, then `completed`, `failed`
   * or `cancelled`.
   */
  state: string;
  reference: string;
  /** Name of the file in the models folder. Null until it is known. */
  file: string | null;
  url: string | null;
  /** Commit of the repository. */
  revision: string | null;
  /** The other models of the repository, when the daemon chose one. */
  choices: string[];
  size_bytes: number | null;
  /** Whether it fits the memory. Absent: its size is not known yet. */
  fit?: Fit;
  /** Bytes that were on disk when the attempt began. */
  offset_bytes: number;
  /** Bytes on disk. An existing model counts in full. */
  bytes: number;
  /** Bytes that are hashed. */
  hashed_bytes: number;
  /** The model was there before, so there was no download. */
  existing: boolean;
  /** Hash of the whole file, once it is known. */
  sha256: string | null;
  /** True: the hash is the expected one. False: no hash was expected. Null: not yet known. */
  verified: boolean | null;
  attempt: number;
  /** Why the last attempt failed. */
  error: ErrorBody | null;
  /** When the next attempt begins, in `backoff`. */
  retry_at: string | null;
  /** Null until the pull is completed. */
  model: ModelRecord | null;
}

export function pullRecord(
  snapshot: PullSnapshot,
  model: ModelRecord | null,
  fitOf: (size_bytes: number | null) => Fit | null = () => null,
): PullRecord {
  const { context } = snapshot;
  const { source, error } = context;
  const fit = fitOf(source?.size_bytes ?? null);
  return {
    id: context.pull_id,
    state: stateName(snapshot),
    reference: context.reference,
    file: source?.file ?? null,
    url: source?.url ?? null,
    revision: source?.revision ?? null,
    choices: source?.choices ?? [],
    size_bytes: source?.size_bytes ?? null,
    ...(fit === null ? {} : { fit }),
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

/** The error that clients get for a pull without a model. Null for any other pull. */
export function pullError(snapshot: PullSnapshot): SvcError | null {
  const { error, cancelled_by, source } = snapshot.context;
  const kept = source === null ? '' : ' The downloaded part is kept.';
  if (isIn(snapshot, 'cancelled') && cancelled_by === DAEMON_STOPPING)
    return new SvcError(
      'daemon_stopping',
      `The daemon stopped before the download was complete.${kept}`,
      {
        hint:
          'Start the daemon with svc start, then run the command again. ' +
          'The download continues.',
      },
    );
  if (isIn(snapshot, 'cancelled'))
    return new SvcError('pull_cancelled', `The download was cancelled.${kept}`);
  if (isIn(snapshot, 'failed')) {
    const failed = fromBody(error ?? {});
    const isKept = error?.retryable === true && snapshot.context.bytes_most > 0;
    return isKept ? failed.with({ hint: errors.pull_cancelled.hint }) : failed;
  }
  return null;
}

/** `cancelled_by` of a pull that a stop of the daemon cancels. */
export const DAEMON_STOPPING = 'daemon_stopping';
