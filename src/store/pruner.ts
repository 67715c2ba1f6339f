import type Database from 'better-sqlite3';
import { isFull } from './failure.ts';
import { Gaps, type Removed } from './gaps.ts';
import { pragma } from './schema.ts';
import type { PruneQuery, PruneReport } from './store.ts';

/** Events removed in one step, unless one run has more: what a commit may have to wait for. */
const STEP_EVENTS = 2000;
/** Pages moved in one step while the file is made smaller. */
const STEP_PAGES = 500;
/**
 * A file up to this size is rebuilt after the last step, which takes moments and leaves nothing behind. In a larger one each event is overwritten
 * where it stands, and a copy that the database made when it moved it to another page may stay until that place is used again.
 * A larger one with less free space than this, or less than a quarter of it free, keeps its size: the space is used again.
 */
const SMALL_BYTES = 16 * 1024 * 1024;

/**
 * Removes history: whole finished runs, and what tells of the boots before the oldest run that is kept; for size the latter first, since nobody
 * asks for it by name.
 *
 * 1. A run goes whole, with its row and so its idempotency key, or stays whole. One that is unfinished stays.
 * 2. The last event of the log stays, so that the log goes on from an event.
 * 3. Of a long stream of an old boot the end goes first, so that what is left is still a beginning.
 * 4. No run goes for the bytes of what cannot be removed: what the present boot has told of itself.
 * 5. Each step is one transaction. What is removed is overwritten in the file, and after the last step it is not in the WAL either.
 */
export class Pruner {
  private readonly db: Database.Database;
  private readonly gaps: Gaps;
  private readonly statements: ReturnType<typeof prepare>;
  /** Something was removed that may still be in the WAL. */
  private untidy = false;

  constructor(db: Database.Database) {
    this.db = db;
    this.gaps = new Gaps(db);
    this.statements = prepare(db);
  }

  /** One step. `present_bytes`: what the present boot has told of itself, roughly. */
  prune(query: PruneQuery, last_seq: number, present_bytes: number): PruneReport {
    const max_bytes = query.max_bytes === null ? null : query.max_bytes + present_bytes;
    const report = this.db.transaction(() => this.remove({ ...query, max_bytes }, last_seq)).immediate();
    if (report.events > 0) this.untidy = true;
    return report.more ? report : { ...report, more: this.tidy() };
  }

  private remove(query: PruneQuery, last_seq: number): PruneReport {
    const removed: Removed[] = [];
    const runs = this.removeRuns(query, last_seq, removed);
    const full = runs >= query.limit || removed.length >= STEP_EVENTS;
    const more = full || this.removeBoots(query, last_seq, removed);
    this.gaps.add(removed);
    return { runs, events: removed.length, more };
  }

  /** How many. */
  private removeRuns(query: PruneQuery, last_seq: number, removed: Removed[]): number {
    const { before_at, max_bytes, limit } = query;
    const { aged, oldest, deleteRun } = this.statements;
    let runs = 0;
    const remove = (run_id: string) => {
      this.removeStream(run_id, 0, removed);
      deleteRun.run(run_id);
      runs += 1;
    };
    const old = before_at === null ? [] : aged.all({ before_at, last_seq, limit });
    for (const run_id of old) if (removed.length < STEP_EVENTS) remove(run_id);
    while (runs < limit && this.isOver(max_bytes)) {
      if (this.removeBoots(query, last_seq, removed) || !this.isOver(max_bytes)) break;
      const run_id = oldest.get(last_seq);
      if (run_id === undefined) break;
      remove(run_id);
    }
    return runs;
  }

  /** Whether there may be more. */
  private removeBoots({ before_at, max_bytes, keep_boot }: PruneQuery, last_seq: number, removed: Removed[]): boolean {
    const { oldestKept, starts, lastOf } = this.statements;
    const kept = oldestKept.get() ?? last_seq;
    for (const stream of starts.all(kept)) {
      if (removed.length >= STEP_EVENTS) return true;
      const last = lastOf.get(stream);
      if (last === undefined || last.boot_id === keep_boot || last.seq >= kept) continue;
      if ((before_at !== null && last.at < before_at) || this.isOver(max_bytes)) this.removeStream(stream, last.version - STEP_EVENTS, removed);
    }
    return removed.length >= STEP_EVENTS;
  }

  /** The events of a stream after a version. */
  private removeStream(stream: string, after: number, removed: Removed[]): void {
    for (const event of this.statements.eventsOf.iterate(stream, after)) removed.push(event);
    this.statements.deleteEvents.run(stream, after);
  }

  private isOver(max_bytes: number | null): boolean {
    return max_bytes !== null && (this.pages('page_count') - this.pages('freelist_count')) * this.pages('page_size') > max_bytes;
  }

  /** Gives space back to the disk, a little at a time, and empties the WAL in the end. Whether there is more to do. */
  private tidy(): boolean {
    if (!this.untidy) return false;
    const [free, all, size] = [this.pages('freelist_count'), this.pages('page_count'), this.pages('page_size')];
    if (this.pages('auto_vacuum') !== 0 && free * size > SMALL_BYTES && free * 4 > all) {
      this.db.exec(`pragma incremental_vacuum(${STEP_PAGES})`);
      return true;
    }
    if (all * size <= SMALL_BYTES) this.rebuild();
    this.db.pragma('wal_checkpoint(truncate)');
    this.untidy = false;
    return false;
  }

  private rebuild(): void {
    try {
      this.db.exec('vacuum');
    } catch (error) {
      // On a full disk it stays as it is; what was removed is overwritten all the same.
      if (!isFull(error)) throw error;
    }
  }

  private pages(name: 'page_count' | 'freelist_count' | 'page_size' | 'auto_vacuum'): number {
    return Number(pragma(this.db, name));
  }
}

function prepare(db: Database.Database) {
  const ids = <P extends unknown[]>(query: string) => db.prepare<P, string>(query).pluck();
  return {
    aged: ids<[{ before_at: number; last_seq: number; limit: number }]>(
      'select run_id from runs where finished = 1 and ended_at < @before_at and seq < @last_seq order by ended_at limit @limit',
    ),
    oldest: ids<[number]>('select run_id from runs where finished = 1 and seq < ? order by accepted_seq limit 1'),
    oldestKept: db.prepare<[], number | null>('select min(accepted_seq) from runs').pluck(),
    starts: ids<[number]>(`select stream from events where version = 1 and type <> 'run.accepted' and seq < ? order by seq`),
    lastOf: db.prepare<[string], { seq: number; version: number; at: number; boot_id: string }>(
      'select seq, version, at, boot_id from events where stream = ? order by version desc limit 1',
    ),
    eventsOf: db.prepare<[string, number], Removed>('select seq, hash from events where stream = ? and version > ?'),
    deleteEvents: db.prepare<[string, number]>('delete from events where stream = ? and version > ?'),
    deleteRun: db.prepare<[string]>('delete from runs where run_id = ?'),
  };
}
