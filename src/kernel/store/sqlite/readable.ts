import type Database from 'better-sqlite3';
import { isDamage } from '../failure.ts';
import type { DamagedRun } from '../port.ts';

/**
 * Rows of a table with damaged pages, one by one: a page that cannot be read costs the runs on it,
 * not the list. It is read when the quick statement has failed.
 */
export class ReadableRuns {
  private readonly db: Database.Database;

  constructor(db: Database.Database) {
    this.db = db;
  }

  /** Where the run was accepted. The events know it too. Null: neither can be read. */
  positionOf(run_id: string): number | null {
    const sources = [
      'select accepted_seq from runs where run_id = ?',
      'select seq from events where stream = ? and version = 1',
    ];
    for (const source of sources) {
      try {
        const found = this.db.prepare<[string], number>(source).pluck().get(run_id);
        if (found !== undefined) return found;
      } catch (error) {
        if (!isDamage(error)) throw error;
      }
    }
    return null;
  }

  /** What `read` finds at each position, with the runs that it cannot read. */
  *each<T>(
    positions: Iterable<number>,
    read: (at: number) => T | undefined,
  ): Iterable<T | DamagedRun> {
    for (const at of positions) {
      let row: T | DamagedRun | undefined;
      try {
        row = read(at);
      } catch (error) {
        if (!isDamage(error)) throw error;
        const run_id = this.runAt(at);
        row = { run_id, damage: `The record of the run ${run_id} is in a damaged page.` };
      }
      if (row !== undefined) yield row;
    }
  }

  private runAt(seq: number): string {
    const find = 'select stream from events where seq = ?';
    try {
      return this.db.prepare<[number], string>(find).pluck().get(seq) ?? `at ${seq}`;
    } catch (error) {
      if (!isDamage(error)) throw error;
      return `at ${seq}`;
    }
  }
}
