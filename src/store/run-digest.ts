import { createHash, hash } from 'node:crypto';
import type Database from 'better-sqlite3';

/** The columns of a run beside its data. */
export interface RunFields {
  run_id: string;
  accepted_seq: number;
  idempotency_key: string | null;
  finished: number;
  ended_at: number | null;
  state: string;
  provider: string;
  seq: number;
}

export const RUN_FIELDS =
  'run_id, accepted_seq, idempotency_key, finished, ended_at, state, provider, seq';

export function fieldsDigest({
  run_id,
  accepted_seq,
  idempotency_key,
  finished,
  ended_at,
  state,
  provider,
  seq,
}: RunFields): Buffer {
  // The database stores well-formed text.
  const texts = [state.toWellFormed(), provider.toWellFormed()];
  return hash(
    'sha256',
    JSON.stringify([run_id, accepted_seq, idempotency_key, finished, ended_at, ...texts, seq]),
    'buffer',
  );
}

/** Takes the stored text or its bytes. */
export function dataDigest(run_id: string, data: string | Uint8Array): Buffer {
  return typeof data === 'string'
    ? hash('sha256', `${run_id}\n${data}`, 'buffer')
    : createHash('sha256').update(`${run_id}\n`).update(data).digest();
}

/** Registers both digests as SQL functions, to upgrade a log that has none. */
export function addDigestFunctions(db: Database.Database): void {
  db.function('fields_digest', { deterministic: true, varargs: true }, (...values: unknown[]) => {
    const [run_id, accepted_seq, idempotency_key, finished, ended_at, state, provider, seq] =
      values;
    return fieldsDigest({
      run_id,
      accepted_seq,
      idempotency_key,
      finished,
      ended_at,
      state,
      provider,
      seq,
    } as RunFields);
  });
  db.function('data_digest', { deterministic: true }, (run_id: unknown, data: unknown) =>
    dataDigest(String(run_id), String(data)),
  );
}

/** True if a stored digest is this one. Other types never match. */
export function isSame(stored: unknown, digest: Buffer): boolean {
  return Buffer.isBuffer(stored) && stored.equals(digest);
}
