import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { hasCode, SvcError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import { asStoreError } from '../failure.ts';
import { readHeader, refuseForeign, sizeOf } from '../files/database-file.ts';
import { type KnownMark, readMarkFile } from '../files/high-water.ts';
import { isOwned } from '../files/ownership.ts';
import type { EventStore, StoredEvent } from '../port.ts';
import { type EventRow, fromEventRow } from '../row.ts';
import { logName } from '../schema.ts';
import { EventReads } from '../sqlite/event-reads.ts';
import { checkHighWater, hashAt } from './check.ts';
import { bringForward, copyTo, isLocked, refuseLarge, unreadable } from './inspect.ts';
import { verifyLog } from './verify.ts';

export interface CopiedLogOptions {
  database: string;
  highWater: string;
  limits: Pick<Limits, 'inspect_bytes' | 'store_page_bytes'>;
}

/** A copy of the log of a stopped daemon. Reading it never touches the log. */
export interface CopiedLog extends Pick<EventStore, 'readAll' | 'readStream' | 'runsNamed'> {
  newestRun(): Promise<string | null>;
  /** Position of the last event. If the log is unreadable, the position of the mark. */
  last_seq: number;
  /** What is wrong with the log, in sentences. */
  problems(): Promise<string[]>;
  close(): void;
}

/** Null if there is no log. Throws daemon_already_running if a process has it open. */
export function openCopiedLog(options: CopiedLogOptions): CopiedLog | null {
  return withCopy(options, ({ copy, remove }) =>
    open(copy, options.highWater, options.limits.store_page_bytes, remove),
  );
}

/** A copy of a log, in a temporary folder. */
export interface Copy {
  folder: string;
  copy: string;
  /** Deletes the folder. */
  remove(): void;
}

/**
 * Copies the log of a stopped daemon and calls `use`, which removes the copy in the end. If it
 * throws, the copy is removed. Null if there is no log. Throws daemon_already_running.
 */
export function withCopy<T>(
  { database, limits }: CopiedLogOptions,
  use: (copy: Copy) => T,
): T | null {
  const sizes = { database_bytes: sizeOf(database), wal_bytes: sizeOf(`${database}-wal`) };
  const inUse = () =>
    new SvcError(
      'daemon_already_running',
      `A process has the event log ${database} open, and no daemon answers.`,
    );
  if (isOwned(database)) throw inUse();
  if (sizes.database_bytes === 0) return null;
  let made: string | null = null;
  const remove = () => {
    if (made !== null) rmSync(made, { recursive: true, force: true });
  };
  try {
    refuseForeign(database, readHeader(database));
    if (isLocked(database)) throw inUse();
    refuseLarge(sizes, limits.inspect_bytes);
    const folder = mkdtempSync(join(tmpdir(), 'svc-copy-'));
    made = folder;
    const copy = copyTo(folder, database);
    if (isLocked(database)) throw inUse();
    return use({ folder, copy, remove });
  } catch (error) {
    remove();
    throw unreadable(error, database);
  }
}

/**
 * Reads only events, which are the same in every version. So a damaged log stays readable.
 * Each event must match its hash. `problems` says what was changed.
 */
function open(copy: string, highWater: string, page_bytes: number, remove: () => void): CopiedLog {
  const db = new Database(copy);
  const { mark } = readMarkFile(highWater);
  const last_seq = lastSeq(db);
  const lost = lostEnd(db, last_seq, highWater);
  const ask = async <T>(read: (events: EventReads) => T): Promise<T> => {
    try {
      return read(new EventReads(db, page_bytes, lost));
    } catch (error) {
      throw asStoreError(error, copy);
    }
  };
  const eventsOf = (read: (events: EventReads) => EventRow[]): Promise<StoredEvent[]> =>
    ask((events) => read(events).map(fromEventRow));
  return {
    last_seq: last_seq ?? mark?.seq ?? 0,
    readAll: (from_seq, limit) => eventsOf((events) => events.readAll(from_seq, limit)),
    readStream: (stream, from_version, limit) =>
      eventsOf((events) => events.readStream(stream, from_version, limit)),
    runsNamed: (prefix, limit) => ask((events) => events.runsNamed(prefix, limit)),
    newestRun: () => ask((events) => events.newestRun()),
    problems: () => problemsOf(db, mark),
    close() {
      db.close();
      remove();
    },
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
