import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import Database from 'better-sqlite3';
import { SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import { GENESIS } from '../chain.ts';
import { asStoreError, codeOf, isFull, unusable } from '../failure.ts';
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
import { Reserve, reserveFile } from '../files/reserve.ts';
import { hasWal, refuseForeignWal, refuseLostDatabase } from '../files/wal.ts';
import { checkHighWater, checkTail, hashAt } from '../inspect/check.ts';
import { createTables, logName, pragma, upgradeTables } from '../schema.ts';

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
  durability: { journal_mode: string; synchronous: string };
  reserve: Reserve;
}

const BEGINNING: Mark = { seq: 0, hash: GENESIS };
/** A WAL is brought back to this size after a large commit. */
const WAL_BYTES = 16 * 1024 * 1024;
/** A full sync is what a Mac needs to get past the cache of its disk; elsewhere it changes nothing. */
const SETTINGS = [
  'journal_mode = wal',
  'synchronous = full',
  'fullfsync = on',
  'checkpoint_fullfsync = on',
  'cell_size_check = on',
  // What is removed is overwritten.
  'secure_delete = on',
  `journal_size_limit = ${WAL_BYTES}`,
];

/**
 * Takes the lock, and looks whether the log is the one that was left.
 *
 * The lock is the database's own: exclusive, taken here and held until it is closed or the process ends, whatever ends it. On unix systems it would be lost if
 * any code of this process opened and closed the file by itself, so nothing does while it is held.
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

/** On a full disk the reserve is what the opening needs: tables brought forward, a log that was cut off put in order. */
function openWith(options: OpenOptions, reserve: Reserve): Omit<OpenedLog, 'reserve'> {
  try {
    return openOnce(options);
  } catch (error) {
    if ((error as SvcError).code !== 'store_full' || !reserve.release()) throw error;
    return openOnce(options);
  }
}

/** All is looked at first without a write, so that a log that is refused stays as it is, with its WAL. */
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
    // A rollback journal is of a database that was being made.
    if (present && hasWal(database) && sizeOf(`${database}-journal`) === 0)
      inspectFirst(options, known);
    db = takeLock(options, present);
    const isEmpty = hasNoTables(db);
    if (present && isEmpty) checkEmpty();
    const { log_id, last } = isEmpty ? { log_id: null, last: BEGINNING } : look(db, options, known);
    if (known.accepted) keepWal(database);
    const startMark = (name: string) => {
      highWater ??= firstMark(options.highWater, name, last);
      return name;
    };
    const newName = () => startMark(randomBytes(16).toString('hex'));
    createTables(db, newName);
    refuseNotOurs(db, database);
    removeSharedMemory(database);
    const durability = makeDurable(db);
    upgradeTables(db, newName);
    if (log_id !== null)
      highWater = known.accepted
        ? firstMark(options.highWater, log_id, last)
        : nextMark(options.highWater, log_id, last);
    if (highWater === null) throw new Error('the log has no mark');
    return { db, last, highWater, durability };
  } catch (error) {
    db?.close();
    (highWater as HighWater | null)?.close();
    throw asStoreError(error, database);
  }
}

/** With the WAL of a daemon that died. A connection that only reads leaves the file and the WAL as they are when it is closed. */
function inspectFirst(options: OpenOptions, known: MarkFile): void {
  const { database, limits } = options;
  const shared = existsSync(`${database}-shm`);
  const in_file = readHeader(database).user_version;
  const db = new Database(database, { readonly: true, timeout: limits.store_lock_ms });
  try {
    refuseForeignWal(db, database, in_file);
    look(db, options, known);
  } catch (error) {
    // Reading beside a WAL takes a little space: where there is none, the log is opened all the same.
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

/** An empty file is locked with the transaction that makes the tables: any other would write a page of nothing. */
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

/** Taking the lock rolls back a creation that a kill cut off. The file then has a header with our name, and the database has nothing. */
function hasNoTables(db: Database.Database): boolean {
  return (
    pragma(db, 'application_id') === 0 &&
    db.prepare('select 1 from sqlite_schema limit 1').get() === undefined
  );
}

/** Reads the name and the end of the log, and checks both. */
function look(
  db: Database.Database,
  { database, highWater }: OpenOptions,
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

/** The mark of a log that has a name: from now on it follows the log, also when it was behind. */
function nextMark(file: string, log_id: string, last: Mark): HighWater {
  const highWater = usable(file, () => new HighWater(file, log_id));
  highWater.write(last);
  return highWater;
}

/** The mark is on disk before the log knows of it: else a power cut between the two would look like a lost mark. */
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

/** Sets what durability rests on, reads it back, and refuses to go on with less. */
function makeDurable(db: Database.Database): OpenedLog['durability'] {
  for (const setting of SETTINGS) db.pragma(setting);
  const durability = {
    journal_mode: String(pragma(db, 'journal_mode')),
    synchronous: pragma(db, 'synchronous') === 2 ? 'full' : 'less than full',
  };
  if (
    durability.journal_mode !== 'wal' ||
    durability.synchronous !== 'full' ||
    pragma(db, 'locking_mode') !== 'exclusive'
  ) {
    throw new SvcError('store_failed', 'The event log cannot be made durable on this disk.', {
      details: durability,
    });
  }
  return durability;
}

function usable<T>(file: string, attempt: () => T): T {
  try {
    return attempt();
  } catch (error) {
    if (isFull(error)) throw asStoreError(error, file);
    throw unusable(file, error);
  }
}
