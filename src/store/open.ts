import Database from 'better-sqlite3';
import { SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { GENESIS } from './chain.ts';
import { checkHighWater, checkTail, hashAt } from './check.ts';
import { asStoreError, codeOf, isFull } from './failure.ts';
import { findDatabase, keepWal, MAGIC, makePrivate, refuseForeign, removeSharedMemory } from './files.ts';
import { HighWater, type Mark, readMark } from './high-water.ts';
import { Reserve, reserveFile } from './reserve.ts';
import { createTables, pragma, upgradeTables } from './schema.ts';

export interface OpenOptions {
  database: string;
  highWater: string;
  limits: Pick<Limits, 'store_lock_ms' | 'store_page_bytes' | 'reserve_bytes'>;
}

export interface OpenedLog {
  db: Database.Database;
  /** The last event and its hash. */
  last: Mark;
  highWater: HighWater;
  durability: { journal_mode: string; synchronous: string };
  reserve: Reserve;
}

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

function openOnce(options: OpenOptions): Omit<OpenedLog, 'reserve'> {
  const { database } = options;
  const known = readKnownMark(options);
  const present = findDatabase(database);
  if (!present) checkHighWater({ seq: 0, hash: GENESIS }, known, options.highWater, () => null);
  makePrivate(database);
  let db: Database.Database | null = null;
  try {
    const opened = new Database(database, { timeout: options.limits.store_lock_ms });
    db = opened;
    const durability = takeOver(db, database);
    const last = checkTail(db);
    checkHighWater(last, known, options.highWater, (seq) => hashAt(opened, seq));
    upgradeTables(db);
    return { db, last, highWater: startMark(options.highWater, last), durability };
  } catch (error) {
    const refusal = asStoreError(error, database);
    if (refusal.code === 'store_corrupt' || refusal.code === 'store_tail_lost') keepWal(database);
    db?.close();
    throw refusal;
  }
}

function readKnownMark({ highWater }: OpenOptions): Mark | null {
  return usable(highWater, () => readMark(highWater));
}

/** From now on the mark stands where the log does, also when it was behind, unreadable or not there. */
function startMark(file: string, last: Mark): HighWater {
  const highWater = usable(file, () => new HighWater(file));
  highWater.write(last);
  return highWater;
}

function takeOver(db: Database.Database, database: string): OpenedLog['durability'] {
  db.pragma('locking_mode = exclusive');
  createTables(db);
  const [application_id, user_version] = [pragma(db, 'application_id') as number, pragma(db, 'user_version') as number];
  refuseForeign(database, { magic: MAGIC, application_id, user_version });
  removeSharedMemory(database);
  return makeDurable(db);
}

/** Sets what durability rests on, reads it back, and refuses to go on with less. */
function makeDurable(db: Database.Database): OpenedLog['durability'] {
  for (const setting of SETTINGS) db.pragma(setting);
  const durability = { journal_mode: String(pragma(db, 'journal_mode')), synchronous: pragma(db, 'synchronous') === 2 ? 'full' : 'less than full' };
  if (durability.journal_mode !== 'wal' || durability.synchronous !== 'full' || pragma(db, 'locking_mode') !== 'exclusive') {
    throw new SvcError('store_failed', 'The event log cannot be made durable on this disk.', { details: durability });
  }
  return durability;
}

function usable<T>(file: string, attempt: () => T): T {
  try {
    return attempt();
  } catch (error) {
    if (isFull(error)) throw asStoreError(error, file);
    throw new SvcError('home_unusable', `${file} cannot be used (${codeOf(error)}).`, { cause: error });
  }
}
