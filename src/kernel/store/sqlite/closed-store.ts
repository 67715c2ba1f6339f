import type Database from 'better-sqlite3';
import { programVersion } from '../../../home/version.ts';
import { asStoreError, notOpen } from '../failure.ts';
import { readMarkFile } from '../files/high-water.ts';
import { type ClosedDatabase, type ClosedLogOptions, openClosed } from '../inspect/closed-log.ts';
import { bringForward } from '../inspect/inspect.ts';
import type { DamagedRun, EventStore, FoundRun, Project, SearchQuery } from '../port.ts';
import type { StoredRun } from '../projection.ts';
import type { RunLine } from '../row.ts';
import { WHOLE_RUN } from '../short-run.ts';
import { type Ask, createStore, type OpenStore, type StoredLog } from '../store.ts';
import { UsageTable } from '../usage.ts';
import type { UsageQuery, UsageSums } from '../usage-sums.ts';
import { Words } from '../words.ts';
import { addTables, openedBy, readEnd } from './open.ts';
import { Reads } from './reads.ts';

export interface ClosedStoreOptions extends ClosedLogOptions {
  /** Folds damaged rows, as the daemon does. */
  project: Project;
}

/**
 * Opens the log of a stopped daemon as a store that reads. It answers as the daemon would. A log
 * that no daemon of this version has opened yet may lack tables: it is copied. Null if there is no
 * log. Throws what `open` throws.
 */
export async function openClosedStore(options: ClosedStoreOptions): Promise<EventStore | null> {
  const closed = await openClosed(options, (db) => openedBy(db) === programVersion());
  if (closed === null) return null;
  try {
    readEnd(closed.db, options, readMarkFile(options.highWater));
    if (closed.isCopy) {
      bringForward(closed.db);
      addTables(closed.db);
    }
    const store = createStore(new ClosedAccess(closed, options), { project: options.project });
    await store.open();
    return store;
  } catch (error) {
    closed.close();
    throw asStoreError(error, options.database);
  }
}

class ClosedAccess implements StoredLog {
  private readonly closed: ClosedDatabase;
  private readonly database: string;
  private readonly reads: ClosedReads;

  constructor(closed: ClosedDatabase, { database, limits }: ClosedStoreOptions) {
    this.closed = closed;
    this.database = database;
    this.reads = new ClosedReads(closed.db, limits.store_page_bytes);
  }

  async open(): Promise<OpenStore> {
    const report = { first_seq: 0, last_seq: 0, last_boot_id: null, full: false };
    return { report, damaged: [] };
  }

  ask: Ask = async (method, ...args) => {
    const call = this.reads[method as keyof ClosedReads] as (...args: unknown[]) => never;
    if (call === undefined) throw notOpen();
    try {
      return call.apply(this.reads, args);
    } catch (error) {
      throw asStoreError(error, this.database);
    }
  };

  async close(): Promise<void> {
    this.closed.close();
  }
}

/** The reads of a log that nothing writes. It owns the damaged rows that were folded again. */
class ClosedReads extends Reads {
  private readonly mended = new Map<string, string>();
  private readonly words: Words;
  private readonly sums: UsageTable;

  constructor(db: Database.Database, page_bytes: number) {
    super(db, page_bytes);
    this.words = new Words(db);
    this.sums = new UsageTable(db);
  }

  usage(query: UsageQuery): UsageSums {
    return this.sums.read(query);
  }

  searchRuns(query: SearchQuery): (FoundRun | DamagedRun)[] {
    return this.words.find(query);
  }

  unindexedRuns(): number {
    return this.words.unindexed();
  }

  /** All are counted that a daemon has counted. */
  recount(): null {
    return null;
  }

  mendRun({ run_id, data }: RunLine): boolean {
    this.mended.set(run_id, data);
    return true;
  }

  protected override dataOf(row: StoredRun, form = WHOLE_RUN) {
    const mended = this.mended.get(row.run_id);
    return mended === undefined ? super.dataOf(row, form) : form.read(form.needs(mended));
  }
}
