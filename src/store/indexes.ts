import type Database from 'better-sqlite3';
import type { EventRow } from './row.ts';

/**
 * Checks that the indexes find the rows. A damaged index hides events from a stream, or a run
 * from its key.
 */
export class Indexes {
  private readonly event: Database.Statement<[string, number], number>;
  private readonly key: Database.Statement<[string], number>;

  constructor(db: Database.Database) {
    this.event = db
      .prepare<[string, number], number>('select seq from events where stream = ? and version = ?')
      .pluck();
    this.key = db.prepare<[string], number>(UNFOUND).pluck();
  }

  /** What is wrong, as a sentence. */
  ofEvent({ seq, stream, version, type }: EventRow): string | null {
    return this.event.get(stream, version) === seq
      ? null
      : `The event ${seq} of the log (${type}) is not found by its stream: ${DAMAGED}`;
  }

  /** What is wrong, as a sentence. */
  ofRun(run_id: string): string | null {
    return this.key.get(run_id) === undefined
      ? null
      : `The run ${run_id} is not found by its idempotency key: ${DAMAGED}`;
  }
}

/**
 * Builds all indexes again from the tables, in one transaction. False if that fails: the tables
 * contradict themselves, or there is no space. Then nothing has changed.
 */
export function rebuildIndexes(db: Database.Database): boolean {
  try {
    db.exec('reindex');
    return true;
  } catch {
    return false;
  }
}

const DAMAGED = 'an index is damaged. The next start of the daemon rebuilds it.';

/** Finds a run whose key does not lead to it. */
const UNFOUND = `select 1 from runs r where r.run_id = ? and r.idempotency_key is not null
  and not exists (select 1 from runs k indexed by runs_key where k.idempotency_key = r.idempotency_key and k.rowid = r.rowid)`;
