import type Database from 'better-sqlite3';
import { fieldsProblem, STORED_FIELDS, type StoredFields } from '../projection.ts';
import { pragma, schemaOf } from '../schema.ts';

/** The first version of the tables in which rows of `runs` have digests. */
const DIGESTS_SCHEMA = 3;

/**
 * Where finished runs end, by their records. Versions cannot show that the last events of a
 * stream are missing.
 * A damaged record says nothing: it is rebuilt from the events.
 */
export class RunEnds {
  private readonly finished: Database.Statement<[string], StoredFields> | null;

  constructor(db: Database.Database) {
    const hasDigests = schemaOf(Number(pragma(db, 'user_version'))) >= DIGESTS_SCHEMA;
    this.finished = hasDigests
      ? db.prepare(`${STORED_FIELDS} where r.run_id = ? and r.finished = 1`)
      : null;
  }

  /** Position of the last event of a finished run; null for any other stream. */
  of(stream: string): number | null {
    const row = this.finished?.get(stream);
    return row === undefined || fieldsProblem(row) !== null ? null : row.seq;
  }
}
