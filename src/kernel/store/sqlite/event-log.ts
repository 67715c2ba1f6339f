import { type BigIntStats, fstatSync, statSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import type Database from 'better-sqlite3';
import { hasCode, SvcError } from '../../../errors.ts';
import { asStoreError, isDamage } from '../failure.ts';
import { type HighWater, type Mark, readMark } from '../files/high-water.ts';
import { isOutOfSpace, type Reserve } from '../files/reserve.ts';
import { Wal, walOf } from '../files/wal.ts';
import { Audit } from '../inspect/audit.ts';
import { verifyLog } from '../inspect/verify.ts';
import {
  type AppendResult,
  CONFLICT,
  type DamagedRun,
  type FoundRun,
  type PruneQuery,
  type PruneReport,
  type SearchQuery,
  type VerifiedReport,
  type VerifyReport,
} from '../port.ts';
import { Pruner } from '../prune/pruner.ts';
import { type RecountPart, recountPart } from '../recount.ts';
import type { CommitRows, RunLine } from '../row.ts';
import type { Calls, OpenStore } from '../store.ts';
import type { RunUsage } from '../usage.ts';
import type { UsageQuery, UsageSums } from '../usage-sums.ts';
import { WordSteps, Words } from '../words.ts';
import { type OpenOptions, openLog } from './open.ts';
import { Reads } from './reads.ts';
import { CommitWrites } from './writes.ts';

/**
 * The event log on disk, in the thread that owns it. It owns the connection, the end of the log
 * (`last`), the high-water mark and the reserve.
 *
 * 1. A commit is one transaction: its events, their hashes and the rows of runs.
 * 2. `last` moves only after a durable commit, and the mark only after `last`.
 * 3. After a failure with an unknown outcome it writes nothing more. The next open finds out what
 *    is on disk.
 * 4. It acknowledges nothing after a file was removed, nor `store_look_ms` after the files were
 *    moved.
 * 5. A full disk changes nothing. The commit is tried again with the space of the reserve, then
 *    by the caller.
 */
export class EventLog extends Reads implements Calls {
  private readonly audit: Audit;
  private readonly options: OpenOptions;
  private readonly highWater: HighWater;
  private readonly reserveFile: Reserve;
  private readonly begin: Database.Statement<[]>;
  readonly wordSteps: WordSteps;
  private readonly writes: CommitWrites;
  private readonly pruner: Pruner;
  private readonly wal: Wal;
  private readonly presence: Presence;
  private last: Mark;
  private failure: SvcError | null = null;

  /** `omitsDamage`: lists omit rows in a damaged page, instead of throwing its error. */
  constructor(options: OpenOptions, omitsDamage = true) {
    const { db, last, highWater, reserve } = openLog(options);
    super(db, options.limits.store_page_bytes, omitsDamage);
    this.options = options;
    this.last = last;
    this.highWater = highWater;
    this.reserveFile = reserve;
    this.audit = new Audit(db);
    this.pruner = new Pruner(db);
    this.begin = db.prepare('begin immediate');
    const words = new Words(db);
    this.wordSteps = this.stepsOf(words);
    this.writes = new CommitWrites(db, words);
    this.wal = new Wal(db, options.database);
    const { database, limits } = options;
    this.presence = new Presence({
      database,
      look_ms: limits.store_look_ms,
      descriptors: () => this.wal.descriptors(),
    });
  }

  /** Builds the indexes again if the last check says so. False: it does not. */
  reindex(): boolean {
    return this.audit.mendIndexes();
  }

  /** The constructor has opened the log. */
  open(): OpenStore {
    const report = {
      first_seq: this.firstSeq() ?? this.last.seq + 1,
      last_seq: this.last.seq,
      last_boot_id: this.lastBootId(),
      full: !this.reserveFile.exists,
    };
    return { report, damaged: this.audit.checkNewest(START_RUNS, !this.omitsDamage) };
  }

  usage(query: UsageQuery): UsageSums {
    return this.writes.usage.read(query);
  }

  searchRuns(query: SearchQuery): (FoundRun | DamagedRun)[] {
    return this.wordSteps.find(query);
  }

  unindexedRuns(): number {
    return this.wordSteps.unindexed();
  }

  private stepsOf(words: Words): WordSteps {
    return new WordSteps({
      words,
      canWrite: () => this.failure === null && this.db.open,
      lastSeq: () => this.last.seq,
      write: (work) => {
        this.begin.run();
        work();
        // The index follows the log, so nothing is lost without a sync.
        this.wal.commit();
      },
      refuse: (thrown) => this.refuse(thrown),
      rollBack: () => this.rollBack(),
    });
  }

  append(rows: CommitRows): AppendResult {
    if (this.failure !== null) throw this.failure;
    const first_seq = this.last.seq + 1;
    if (rows.events.length > 0 || rows.runs.length > 0) {
      const last = this.writeWithReserve(rows);
      // The checks come before the sync: after it the caches of the processor are cold.
      const lost = this.failIfLost(this.presence.problemOfCommit());
      if (lost !== null) throw lost;
      this.sync();
      this.last = last;
      this.highWater.write(last);
    }
    return { full: !this.reserveFile.exists, first_seq };
  }

  /** The failure that ends all writing, if the files of the log are gone. */
  findLostFiles(): SvcError | null {
    return this.failure ?? this.failIfLost(this.presence.problem());
  }

  private failIfLost(problem: string | null): SvcError | null {
    if (problem !== null)
      this.failure = new SvcError('store_failed', problem, {
        hint: 'Put the folder back, or look who removed it; then run: svc start',
      });
    return this.failure;
  }

  recount(usages: readonly RunUsage[], after: number): RecountPart | null {
    if (this.failure !== null) throw this.failure;
    return recountPart(this.db, this.writes, usages, after);
  }

  /** Replaces a damaged row. False if the run has newer events. */
  mendRun(line: RunLine): boolean {
    if (this.failure !== null) throw this.failure;
    const mended = this.mendOrRefuse(line);
    if (mended) this.audit.mended(line.run_id);
    return mended;
  }

  /** A damaged row may have had other words than the index has of it. */
  private mendOrRefuse(line: RunLine): boolean {
    try {
      return this.writes.runs.mend(line);
    } catch (error) {
      if (!this.wordSteps.drops(error)) throw error;
      return this.writes.runs.mend(line);
    }
  }

  /** Creates the reserve again if it was used. If it cannot, the disk is as good as full. */
  reserve(): boolean {
    try {
      return this.reserveFile.exists || this.reserveFile.fill();
    } catch {
      return false;
    }
  }

  /** The next commit reports a full disk. */
  spendReserve(): boolean {
    return this.reserveFile.release();
  }

  prune(query: PruneQuery): PruneReport {
    return this.removeAndSync(() => this.pruner.prune(query, this.last.seq));
  }

  removeRun(run_id: string): PruneReport {
    return this.removeAndSync(() => this.pruner.removeOne(run_id, this.last.seq));
  }

  private removeAndSync(remove: () => PruneReport): PruneReport {
    if (this.failure !== null) throw this.failure;
    const report = this.removeOrRefuse(remove);
    if (report.events > 0) this.sync();
    return report;
  }

  private removeOrRefuse(remove: () => PruneReport): PruneReport {
    try {
      return remove();
    } catch (error) {
      if (this.wordSteps.drops(error)) return remove();
      throw this.refuse(error);
    }
  }

  /** Pauses between parts, so that the thread answers other calls meanwhile. */
  async verify(): Promise<VerifyReport> {
    const mark = readMark(this.options.highWater);
    const report = await verifyLog(this.db, mark, turn);
    if (!report.ok && !this.omitsDamage) this.throwIfMalformed();
    const { trouble } = this.highWater;
    return trouble === null
      ? report
      : { ...report, ok: false, problems: [...report.problems, trouble] };
  }

  private throwIfMalformed(): void {
    const found = this.db.pragma('integrity_check(1)', { simple: true });
    if (found !== 'ok') throw Object.assign(new Error(String(found)), { code: 'SQLITE_CORRUPT' });
  }

  verifyPart(now: number, restart: boolean): { done: boolean; damaged: string[] } {
    if (restart) this.audit.restart();
    return this.audit.part(now);
  }

  verified(): VerifiedReport {
    return this.audit.report();
  }

  close(): void {
    try {
      if (this.findLostFiles() === null) {
        this.wordSteps.catchUp();
        this.highWater.restore();
      }
      this.db.close();
    } finally {
      this.wal.close();
      this.highWater.close();
    }
  }

  private writeWithReserve(rows: CommitRows): Mark {
    try {
      return this.write(rows);
    } catch (thrown) {
      const error = this.refuse(thrown);
      if (!isStoreFull(error) || !this.reserveFile.release()) throw error;
    }
    try {
      return this.write(rows);
    } catch (thrown) {
      throw this.refuse(thrown);
    }
  }

  private write(rows: CommitRows): Mark {
    this.begin.run();
    const last = this.writes.write(rows, this.last);
    this.wal.commit();
    this.pruner.wrote(rows.events);
    return last;
  }

  /** Afterwards all commits are durable. */
  private sync(): void {
    try {
      this.wal.sync();
    } catch (error) {
      throw this.fail(error);
    }
  }

  private rollBack(): SvcError | null {
    try {
      if (this.db.inTransaction) this.db.exec('rollback');
      return null;
    } catch (error) {
      return this.fail(error);
    }
  }

  /** Rolls back. Any error except a conflict and a full disk ends all writing. */
  private refuse(thrown: unknown): unknown {
    const failure = this.rollBack();
    if (failure !== null) return failure;
    if ((thrown as { code?: unknown }).code === CONFLICT) return thrown;
    const { database } = this.options;
    return isOutOfSpace(thrown, database)
      ? new SvcError('store_full', undefined, { cause: thrown })
      : this.fail(thrown);
  }

  private fail(cause: unknown): SvcError {
    this.failure = isDamage(cause)
      ? asStoreError(cause, this.options.database)
      : new SvcError('store_failed', undefined, { cause });
    return this.failure;
  }
}

/**
 * Runs checked when the log is opened, without their texts: 0.1 s. The unfinished ones are checked
 * as well. The slow check follows with the others.
 */
const START_RUNS = 1000;

function isStoreFull(error: unknown): boolean {
  return hasCode(error, 'store_full');
}

interface PresenceOptions {
  database: string;
  /** Between two checks of the file names. */
  look_ms: number;
  /** Descriptors of the open files. The WAL joins with the first commit. */
  descriptors(): Iterable<number>;
}

/**
 * Checks that the open files are still the ones in the folder. A removed file accepts writes,
 * which are lost when it is closed.
 *
 * 1. Each commit finds an open file without a name: it was removed, or replaced by a rename. This
 *    costs a microsecond a file.
 * 2. A commit finds files with another name at most `look_ms` after the move. Until then nothing
 *    is lost: the moved files have all acknowledged events.
 */
class Presence {
  private readonly options: PresenceOptions;
  private readonly files: { name: string; at_open: BigIntStats | null }[];
  private nextCheckAt = 0;

  constructor(options: PresenceOptions) {
    this.options = options;
    this.files = [options.database, walOf(options.database)].map((name) => ({
      name,
      at_open: statFile(name),
    }));
  }

  /** The problem, as a sentence. Cheap enough for every commit. */
  problemOfCommit(): string | null {
    for (const fd of this.options.descriptors())
      if (fstatSync(fd).nlink === 0) return this.problem() ?? REMOVED;
    return performance.now() < this.nextCheckAt ? null : this.problem();
  }

  /** The problem, as a sentence. Checks the names too. */
  problem(): string | null {
    for (const file of this.files) {
      const found = statFile(file.name);
      // SQLite creates its WAL with the first commit.
      file.at_open ??= found;
      if (found === null && file.at_open !== null)
        return `${file.name} was removed while the daemon ran. ${LOST}`;
      if (found?.ino !== file.at_open?.ino || found?.dev !== file.at_open?.dev)
        return `${file.name} was replaced by another file while the daemon ran. ${LOST}`;
    }
    this.nextCheckAt = performance.now() + this.options.look_ms;
    return null;
  }
}

const LOST = 'What is written now would be lost.';
const REMOVED = `A file of the event log was removed while the daemon ran. ${LOST}`;

function statFile(file: string): BigIntStats | null {
  try {
    return statSync(file, { bigint: true });
  } catch {
    return null;
  }
}
