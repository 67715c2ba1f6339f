import { rmSync } from 'node:fs';
import Database from 'better-sqlite3';
import { hasCode, SvcError } from '../../../errors.ts';
import { awaitLock, beginShared } from '../../../home/file-lock.ts';
import type { Limits } from '../../../limits.ts';
import { asStoreError, codeOf } from '../failure.ts';
import { copyLog } from '../files/copies.ts';
import { readHeader, refuseForeign, removeSharedMemory, sizeOf } from '../files/database-file.ts';
import { type KnownMark, readMarkFile } from '../files/high-water.ts';
import { isOwned } from '../files/ownership.ts';
import { hasWal, refuseForeignWal, walOf } from '../files/wal.ts';
import type { EventStore, StoredEvent } from '../port.ts';
import { type EventRow, fromEventRow } from '../row.ts';
import { logName, SCHEMA, schemaOf } from '../schema.ts';
import { EventReads } from '../sqlite/event-reads.ts';
import { checkHighWater, hashAt } from './check.ts';
import { bringForward, isLocked, refuseLarge, unreadable } from './inspect.ts';
import { verifyLog } from './verify.ts';

export interface ClosedLogOptions {
  database: string;
  highWater: string;
  /** The lock of the home: who has it owns the log. */
  lock: string;
  limits: Pick<Limits, 'inspect_bytes' | 'store_lock_ms' | 'store_page_bytes'>;
}

/** The database of the log of a stopped daemon. Reading it never changes the log. */
export interface ClosedDatabase {
  db: Database.Database;
  /** Writing it changes no log. */
  isCopy: boolean;
  close(): void;
}

/**
 * Opens the log of a stopped daemon, read-only and where it is. So a command reads the pages that
 * it shows. Until the close a daemon that starts waits, and other readers do not.
 *
 * A log whose tables are old, or on a disk that cannot be written, is copied first. Null if there
 * is no log. Throws daemon_already_running if a process has it open.
 */
export async function openClosed(
  options: ClosedLogOptions,
  isCurrent: (db: Database.Database) => boolean = () => true,
): Promise<ClosedDatabase | null> {
  const { database } = options;
  if (isOwned(database)) throw inUse(database);
  if (sizeOf(database) === 0) return null;
  try {
    const header = readHeader(database);
    refuseForeign(database, header);
    const isOld = schemaOf(header.user_version) < SCHEMA;
    const inPlace = isOld ? null : await openInPlace(options);
    if (inPlace !== null && isCurrent(inPlace.db)) return inPlace;
    inPlace?.close();
    return openCopy(options);
  } catch (error) {
    throw unreadable(error, database);
  }
}

/** Null: nothing can be written beside the log, and SQLite needs that. */
async function openInPlace({
  database,
  lock,
  limits,
}: ClosedLogOptions): Promise<ClosedDatabase | null> {
  const release = await awaitLock(lock, limits.store_lock_ms, beginShared).catch(
    (error: unknown) => {
      if (hasCode(error, 'home_unusable')) return undefined;
      throw error;
    },
  );
  if (release === undefined) return null;
  if (release === null) throw inUse(database);
  const inFile = readHeader(database).user_version;
  let db: Database.Database | null = null;
  const close = () => {
    db?.close();
    removeTraces(database);
    release();
  };
  try {
    db = new Database(database, { readonly: true, timeout: limits.store_lock_ms });
    refuseForeignWal(db, database, inFile);
    return { db, isCopy: false, close };
  } catch (error) {
    close();
    if (UNWRITABLE.some((code) => codeOf(error).startsWith(code))) return null;
    throw error;
  }
}

const UNWRITABLE = ['SQLITE_CANTOPEN', 'SQLITE_READONLY', 'SQLITE_IOERR'];

function openCopy({ database, limits }: ClosedLogOptions): ClosedDatabase {
  if (isLocked(database)) throw inUse(database);
  const sizes = { database_bytes: sizeOf(database), wal_bytes: sizeOf(walOf(database)) };
  refuseLarge(sizes, limits.inspect_bytes);
  const copy = copyLog(database);
  try {
    if (isLocked(database)) throw inUse(database);
    const db = new Database(copy.database);
    const close = () => {
      db.close();
      copy.remove();
    };
    return { db, isCopy: true, close };
  } catch (error) {
    copy.remove();
    throw error;
  }
}

/** Files that a reader makes beside a log. A WAL that is not empty was there before. */
function removeTraces(database: string): void {
  try {
    removeSharedMemory(database);
    if (!hasWal(database)) rmSync(walOf(database), { force: true });
  } catch {
    // Another reader has them open. The next start of the daemon removes them.
  }
}

export function inUse(database: string): SvcError {
  return new SvcError(
    'daemon_already_running',
    `A process has the event log ${database} open, and no daemon answers.`,
  );
}

/** The events of a closed log. */
export interface ClosedLog extends Pick<EventStore, 'readAll' | 'readStream' | 'runsNamed'> {
  newestRun(): Promise<string | null>;
  /** Position of the last event. If the log is unreadable, the position of the mark. */
  last_seq: number;
  /** The problems of the log, in sentences. */
  problems(): Promise<string[]>;
  close(): void;
}

/**
 * Reads only events, which are the same in every version. So a damaged log stays readable.
 * Each event must match its hash. `problems` says what was changed. Null if there is no log. Throws
 * daemon_already_running.
 */
export async function openClosedLog(options: ClosedLogOptions): Promise<ClosedLog | null> {
  const closed = await openClosed(options);
  if (closed === null) return null;
  try {
    return eventsOf(closed, options);
  } catch (error) {
    closed.close();
    throw unreadable(error, options.database);
  }
}

function eventsOf({ db, close }: ClosedDatabase, options: ClosedLogOptions): ClosedLog {
  const { database, highWater, limits } = options;
  const { mark } = readMarkFile(highWater);
  const last_seq = lastSeq(db);
  const lost = lostEnd(db, last_seq, highWater);
  const ask = async <T>(read: (events: EventReads) => T): Promise<T> => {
    try {
      return read(new EventReads(db, limits.store_page_bytes, lost));
    } catch (error) {
      throw asStoreError(error, database);
    }
  };
  const rows = (read: (events: EventReads) => EventRow[]): Promise<StoredEvent[]> =>
    ask((events) => read(events).map(fromEventRow));
  return {
    last_seq: last_seq ?? mark?.seq ?? 0,
    readAll: (from_seq, limit) => rows((events) => events.readAll(from_seq, limit)),
    readStream: (stream, from_version, limit) =>
      rows((events) => events.readStream(stream, from_version, limit)),
    runsNamed: (prefix, limit) => ask((events) => events.runsNamed(prefix, limit)),
    newestRun: () => ask((events) => events.newestRun()),
    problems: () => problemsOf(db, mark),
    close,
  };
}

async function problemsOf(db: Database.Database, mark: KnownMark | null): Promise<string[]> {
  try {
    bringForward(db);
  } catch {
    return ['The database is damaged: its tables cannot be checked.'];
  }
  return (await verifyLog(db, mark, async () => {})).problems;
}

/** The error of a log that ends before its mark; null if it does not, or is unreadable. */
function lostEnd(
  db: Database.Database,
  last_seq: number | null,
  highWater: string,
): SvcError | null {
  if (last_seq === null) return null;
  try {
    checkHighWater(
      { seq: last_seq, hash: '' },
      readMarkFile(highWater),
      logName(db),
      highWater,
      (seq) => hashAt(db, seq),
    );
    return null;
  } catch (error) {
    return hasCode(error, 'store_tail_lost') ? error : null;
  }
}

function lastSeq(db: Database.Database): number | null {
  try {
    return db.prepare<[], number | null>('select max(seq) from events').pluck().get() ?? 0;
  } catch {
    return null;
  }
}
