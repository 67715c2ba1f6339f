import { hash } from 'node:crypto';
import type Database from 'better-sqlite3';
import { columnOf, RUN_NAMES } from './columns.ts';

/** The columns of a run in SQLite beside its data. */
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

/** Their names, in the order of the digest. */
export const RUN_FIELDS = RUN_NAMES.filter(
  (name): name is keyof RunFields => columnOf(name).sqlite === 'row',
);
const IS_TEXT = RUN_FIELDS.map((name) => columnOf(name).type === 'text');

export function fieldsDigest(row: RunFields): Buffer {
  // The database stores well-formed text.
  const values = RUN_FIELDS.map((name, index) =>
    IS_TEXT[index] ? String(row[name]).toWellFormed() : row[name],
  );
  return hash('sha256', JSON.stringify(values), 'buffer');
}

export function dataDigest(run_id: string, data: string): Buffer {
  return hash('sha256', `${run_id}\n${data}`, 'buffer');
}

/** Registers both digests as SQL functions, to upgrade a log that has none. */
export function addDigestFunctions(db: Database.Database): void {
  db.function('fields_digest', { deterministic: true, varargs: true }, (...values: unknown[]) =>
    fieldsDigest(
      Object.fromEntries(RUN_FIELDS.map((name, index) => [name, values[index]])) as never,
    ),
  );
  db.function('data_digest', { deterministic: true }, (run_id: unknown, data: unknown) =>
    dataDigest(String(run_id), String(data)),
  );
}

/** True if a stored digest is this one. Other types never match. */
export function isSame(stored: unknown, digest: Buffer): boolean {
  return Buffer.isBuffer(stored) && stored.equals(digest);
}
