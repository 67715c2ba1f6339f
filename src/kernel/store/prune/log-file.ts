import type Database from 'better-sqlite3';
import { isFull } from '../failure.ts';
import { pragma } from '../schema.ts';

/** Pages moved in one step while the file shrinks. */
const STEP_PAGES = 500;
/**
 * A file up to this size is rebuilt after the last step, which takes moments and leaves no
 * traces.
 * In a larger file each event is overwritten in place. A copy that SQLite moved to another page
 * may stay until that page is used again.
 * A larger file shrinks only if this much, and a quarter of it, is free.
 */
const SMALL_BYTES = 16 * 1024 * 1024;

/**
 * Tables that no removal of runs makes smaller. They have bounds, or are small beside the runs, and
 * do not count: otherwise runs would go for them.
 */
const DERIVED = [
  'usage',
  'cache_usage',
  'embedding_usage',
  'gaps',
  'run_words_data',
  'run_words_idx',
];

/** Pages that may stay in the WAL after a checkpoint: a reader used them, or they are newer. */
const LEFT_PAGES = 16_384;

/** The size of the database file, which follows removals in steps. */
export class LogFile {
  private readonly db: Database.Database;
  private readonly derivedBytes: Database.Statement<[string], number>;
  /** Bytes of the tables that do not count, measured once in a round, and only if it matters. */
  private derived: number | null = null;
  /** Removed data may still be in the WAL. */
  private untidy = false;

  constructor(db: Database.Database) {
    this.db = db;
    // Reads the pages of these tables: 1 ms a megabyte.
    this.derivedBytes = db
      .prepare<[string], number>(
        `select coalesce(sum((select sum(pgsize) from dbstat('main', 1) where name = value)), 0)
         from json_each(?)`,
      )
      .pluck();
  }

  noteRemoval(): void {
    this.untidy = true;
  }

  /** A round has ended. */
  forget(): void {
    this.derived = null;
  }

  /** Whether what counts in it has more bytes. */
  isOver(max_bytes: number | null): boolean {
    if (max_bytes === null) return false;
    const pages = this.pages('page_count') - this.pages('freelist_count');
    const excess = pages * this.pages('page_size') - max_bytes;
    if (excess <= 0) return false;
    this.derived ??= this.derivedBytes.get(JSON.stringify(DERIVED)) ?? 0;
    return excess > this.derived;
  }

  /** Shrinks the file a little. True if there is more to do. */
  shrink(): boolean {
    if (!this.untidy) return false;
    const [free, all, size] = [
      this.pages('freelist_count'),
      this.pages('page_count'),
      this.pages('page_size'),
    ];
    if (this.pages('auto_vacuum') !== 0 && free * size > SMALL_BYTES && free * 4 > all) {
      this.db.exec(`pragma incremental_vacuum(${STEP_PAGES})`);
      return true;
    }
    if (all * size <= SMALL_BYTES) this.rebuild();
    return false;
  }

  /**
   * Writes the WAL back into the database, and empties it after a removal. Returns why it cannot;
   * null if done. A WAL that was not emptied is emptied after the next step.
   */
  checkpoint(): string | null {
    try {
      const [result] = this.db.pragma(
        `wal_checkpoint(${this.untidy ? 'truncate' : 'passive'})`,
      ) as { busy: number; log: number; checkpointed: number }[];
      const left = result === undefined ? 0 : result.log - result.checkpointed;
      if (left > (this.untidy ? 0 : LEFT_PAGES))
        return `${left} pages of the write-ahead log were not written back.`;
      if (this.untidy && result?.busy === 1) return 'The write-ahead log is being read.';
      this.untidy = false;
      return null;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  private rebuild(): void {
    try {
      this.db.exec('vacuum');
    } catch (error) {
      // On a full disk the file keeps its size. Removed data is overwritten anyway.
      if (!isFull(error)) throw error;
    }
  }

  private pages(name: 'page_count' | 'freelist_count' | 'page_size' | 'auto_vacuum'): number {
    return Number(pragma(this.db, name));
  }
}
