import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import Database from 'better-sqlite3';
import { SvcError } from '../../../errors.ts';
import { programVersion } from '../../../home/version.ts';
import type { Limits } from '../../../limits.ts';
import { GENESIS } from '../continuity.ts';
import { asStoreError, codeOf, isFull, unusable } from '../failure.ts';
import { removeImport, removeOldCopies } from '../files/copies.ts';
import {
  findDatabase,
  keepWal,
  MAGIC,
  makePrivate,
  readHeader,
  refuseForeign,
  removeSharedMemory,
  sizeOf,
} from '../files/database-file.ts';
import { HighWater, type Mark, type MarkFile, readMarkFile } from '../files/high-water.ts';
import { isOutOfSpace, Reserve, reserveFile } from '../files/reserve.ts';
import { hasWal, refuseForeignWal, refuseLostDatabase } from '../files/wal.ts';
import { checkHighWater, checkTail, hashAt } from '../inspect/check.ts';
import { addAskers, addDerived, addPlaces } from '../places.ts';
import { createTables, logName, pragma, upgradeTables } from '../schema.ts';
import { addUsageTables } from '../usage.ts';
import { addWords } from '../words.ts';
import { addTexts } from './texts-table.ts';

export interface OpenOptions {
  database: string;
  highWater: string;
  limits: Pick<
    Limits,
    'store_lock_ms' | 'store_page_bytes' | 'store_look_ms' | 'store_look_idle_ms' | 'reserve_bytes'
  >;
}

export interface OpenedLog {
  db: Database.Database;
  /** The last event and its hash. */
  last: Mark;
  highWater: HighWater;
  reserve: Reserve;
}

const BEGINNING: Mark = { seq: 0, hash: GENESIS };
/** A WAL shrinks to this size after a large commit. */
const WAL_BYTES = 16 * 1024 * 1024;
/** A Mac needs a full sync to get past the cache of its disk. Elsewhere it changes nothing. */
const SETTINGS = [
  'journal_mode = wal',
  // Syncs only around a checkpoint. `Wal.sync` syncs each commit, which costs less.
  'synchronous = normal',
  'fullfsync = on',
  'checkpoint_fullfsync = on',
  'cell_size_check = on',
  // Overwrites removed data.
  'secure_delete = on',
  // KiB, as a negative number. better-sqlite3 has 16 MB by default, which stay in memory.
  'cache_size = -4000',
  `journal_size_limit = ${WAL_BYTES}`,
];

/**
 * Takes the lock, and checks that the log is unchanged since its last close.
 *
 * The lock is SQLite's own: exclusive, until the close or the end of the process. On Unix it
 * would be lost if this process opened and closed the file elsewhere. So nothing else opens it.
 */
export function openLog(options: OpenOptions): OpenedLog {
  const reserve = new Reserve(options.database, options.limits.reserve_bytes);
  const opened = openWith(options, reserve);
  try {
    usable(reserveFile(options.database), () => reserve.fill());
    return { ...opened, reserve };
  } catch (error) {
    opened.db.close();
    opened.highWater.close();
    throw error;
  }
}

/**
 * On a full disk the open needs the space of the reserve: for an upgrade, or to recover a log
 * that was cut off.
 */
function openWith(options: OpenOptions, reserve: Reserve): Omit<OpenedLog, 'reserve'> {
  try {
    return openOnce(options);
  } catch (error) {
    if ((error as SvcError).code !== 'store_full' || !reserve.release()) throw error;
    return openOnce(options);
  }
}

/**
 * Checks everything before the first write, so that a refused log stays unchanged, with its WAL.
 */
function openOnce(options: OpenOptions): Omit<OpenedLog, 'reserve'> {
  const { database } = options;
  const known = usable(options.highWater, () => readMarkFile(options.highWater));
  const present = findDatabase(database);
  const checkEmpty = () => checkHighWater(BEGINNING, known, null, options.highWater, () => null);
  if (!present) {
    checkEmpty();
    refuseLostDatabase(database);
  }
  makePrivate(database);
  let db: Database.Database | null = null;
  let highWater: HighWater | null = null;
  try {
    // A rollback journal belongs to a database whose creation was cut off.
    if (present && hasWal(database) && sizeOf(`${database}-journal`) === 0)
      inspectFirst(options, known);
    db = takeLock(options, present);
    const isEmpty = hasNoTables(db);
    if (present && isEmpty) checkEmpty();
    const { log_id, last } = isEmpty
      ? { log_id: null, last: BEGINNING }
      : readEnd(db, options, known);
    if (known.accepted) keepWal(database);
    const startMark = (name: string) => {
      highWater ??= firstMark(options.highWater, name, last);
      return name;
    };
    const newName = () => startMark(randomBytes(16).toString('hex'));
    createTables(db, newName);
    refuseNotOurs(db, database);
    removeSharedMemory(database);
    removeOldCopies(database);
    removeImport(database);
    makeDurable(db);
    upgradeTables(db, newName);
    addTables(db);
    if (log_id !== null)
      highWater = known.accepted
        ? firstMark(options.highWater, log_id, last)
        : nextMark(options.highWater, log_id, last);
    if (highWater === null) throw new Error('the log has no mark');
    return { db, last, highWater };
  } catch (error) {
    db?.close();
    (highWater as HighWater | null)?.close();
    throw isOutOfSpace(error, database)
      ? new SvcError('store_full', undefined, { cause: error })
      : asStoreError(error, database);
  }
}

/** The tables and the index beside the log, in one transaction: each costs a sync. */
export function addTables(db: Database.Database): void {
  const add = db.transaction(() => {
    addUsageTables(db);
    addPlaces(db);
    addAskers(db);
    addDerived(db);
    addTexts(db);
    addWords(db);
    setOpenedBy(db);
  });
  add.exclusive();
}

/** The version that has opened a log last. Its tables are those of that version. */
export function openedBy(db: Database.Database): string | undefined {
  const value = db.prepare<[], string>(`select value from meta where name = '${OPENED_BY}'`);
  return value.pluck().get();
}

function setOpenedBy(db: Database.Database): void {
  if (openedBy(db) !== programVersion())
    db.prepare('insert or replace into meta values (?, ?)').run(OPENED_BY, programVersion());
}

const OPENED_BY = 'opened_by';

/** Includes the WAL of a dead daemon. A read-only connection leaves both files unchanged. */
function inspectFirst(options: OpenOptions, known: MarkFile): void {
  const { database, limits } = options;
  const shared = existsSync(`${database}-shm`);
  const inFile = readHeader(database).user_version;
  const db = new Database(database, { readonly: true, timeout: limits.store_lock_ms });
  try {
    refuseForeignWal(db, database, inFile);
    readEnd(db, options, known);
  } catch (error) {
    // Reading a WAL needs a little space. Without it, the log is opened anyway.
    if (
      !codeOf(error).startsWith('SQLITE_IOERR') &&
      !codeOf(error).startsWith('SQLITE_CANTOPEN') &&
      !isFull(error)
    )
      throw error;
  } finally {
    db.close();
    if (!shared) removeSharedMemory(database);
  }
}

/**
 * The transaction that creates the tables locks an empty file. Any other would write an empty
 * page.
 */
function takeLock({ database, limits }: OpenOptions, present: boolean): Database.Database {
  const db = new Database(database, { timeout: limits.store_lock_ms });
  try {
    db.pragma('locking_mode = exclusive');
    if (present) db.exec('begin exclusive; commit');
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/**
 * The lock rolls back a creation that was cut off. Then the header has our name, and the database
 * is empty.
 */
function hasNoTables(db: Database.Database): boolean {
  return (
    pragma(db, 'application_id') === 0 &&
    db.prepare('select 1 from sqlite_schema limit 1').get() === undefined
  );
}

/** Reads and checks the name and the end of the log. */
export function readEnd(
  db: Database.Database,
  { database, highWater }: Pick<OpenOptions, 'database' | 'highWater'>,
  known: MarkFile,
): { log_id: string | null; last: Mark } {
  refuseNotOurs(db, database);
  const log_id = logName(db);
  const last = checkTail(db);
  checkHighWater(last, known, log_id, highWater, (seq) => hashAt(db, seq));
  return { log_id, last };
}

function refuseNotOurs(db: Database.Database, database: string): void {
  const [application_id, user_version] = [
    pragma(db, 'application_id') as number,
    pragma(db, 'user_version') as number,
  ];
  refuseForeign(database, { magic: MAGIC, application_id, user_version });
}

/** The mark of a log with a name. It follows the log from now on, even if it was behind. */
function nextMark(file: string, log_id: string, last: Mark): HighWater {
  const highWater = usable(file, () => new HighWater(file, log_id));
  highWater.write(last);
  return highWater;
}

/**
 * Writes the mark before the log knows of it. Otherwise a power cut would look like a lost mark.
 */
function firstMark(file: string, log_id: string, last: Mark): HighWater {
  return usable(file, () => {
    const highWater = new HighWater(file, log_id);
    try {
      highWater.writeFirst(last);
      return highWater;
    } catch (error) {
      highWater.close();
      throw error;
    }
  });
}

/** Sets what commits need to be durable, reads it back, and refuses less. */
export function makeDurable(db: Database.Database): void {
  for (const setting of SETTINGS) db.pragma(setting);
  const found = {
    journal_mode: pragma(db, 'journal_mode'),
    synchronous: pragma(db, 'synchronous'),
    locking_mode: pragma(db, 'locking_mode'),
  };
  const { journal_mode, synchronous, locking_mode } = found;
  if (journal_mode !== 'wal' || synchronous !== NORMAL || locking_mode !== 'exclusive')
    throw new SvcError('store_failed', 'The event log cannot be made durable on this disk.', {
      details: found,
    });
}

/** SQLite reads back a number. */
const NORMAL = 1;

function usable<T>(file: string, attempt: () => T): T {
  try {
    return attempt();
  } catch (error) {
    if (isFull(error)) throw asStoreError(error, file);
    throw unusable(file, error);
  }
}
