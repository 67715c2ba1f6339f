import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { whyUnusable } from '../../../causes.ts';
import { SvcError } from '../../../errors.ts';
import { defaultLimits, type Limits } from '../../../limits.ts';
import { asStoreError, codeOf } from '../failure.ts';
import { type Copy, copyLog } from '../files/copies.ts';
import { readHeader, refuseForeign, sizeOf } from '../files/database-file.ts';
import { type KnownMark, type Mark, readMark } from '../files/high-water.ts';
import { isOwned } from '../files/ownership.ts';
import { refuseLostDatabase } from '../files/wal.ts';
import type { StoredEvent, VerifyReport } from '../port.ts';
import { fromEventRow } from '../row.ts';
import { upgradeTables } from '../schema.ts';
import { Reads } from '../sqlite/reads.ts';
import { verifyLog } from './verify.ts';

export interface StoreSizes {
  database_bytes: number;
  wal_bytes: number;
}

/** The contents of the store of a stopped daemon. */
export interface StoreContents extends StoreSizes {
  state: 'read';
  last_seq: number;
  /** The last events of the log, oldest first. */
  last_events: StoredEvent[];
  /** The last boot and its daemon events, oldest first. Not `complete` if there are more. */
  last_boot: { boot_id: string; events: StoredEvent[]; complete: boolean } | null;
  runs: { finished: number; unfinished: number };
  unfinished_runs: string[];
  /** Null if no mark is readable: a lost end would go unnoticed. */
  high_water: Mark | null;
  verify: VerifyReport;
}

export type Inspection =
  /** There is no event log. A mark means that there was one. */
  | { state: 'absent'; high_water: Mark | null }
  /** A process, probably the daemon, has it open. */
  | ({ state: 'in_use' } & StoreSizes)
  /** The error is store_foreign, store_corrupt, store_failed or home_unusable. */
  | ({ state: 'unreadable'; error: SvcError } & StoreSizes)
  | StoreContents;

export interface InspectOptions {
  database: string;
  highWater: string;
  limits?: Pick<Limits, 'inspect_bytes' | 'store_page_bytes'>;
}

const LAST_EVENTS = 20;
const BOOT_EVENTS_MAX = 100_000;

/**
 * Reads the event log of a stopped daemon, for the doctor, from a copy. It reads all of it, and no
 * daemon that starts should wait so long. So it copies the log while no process has it open.
 */
export async function inspectStore({
  database,
  highWater,
  limits = defaultLimits,
}: InspectOptions): Promise<Inspection> {
  const sizes = { database_bytes: sizeOf(database), wal_bytes: sizeOf(`${database}-wal`) };
  let copy: Copy | null = null;
  try {
    if (isOwned(database)) return { state: 'in_use', ...sizes };
    if (sizes.database_bytes === 0) {
      refuseLostDatabase(database);
      return { state: 'absent', high_water: readMark(highWater) };
    }
    refuseForeign(database, readHeader(database));
    if (isLocked(database)) return { state: 'in_use', ...sizes };
    refuseLarge(sizes, limits.inspect_bytes);
    copy = copyLog(database);
    if (isLocked(database)) return { state: 'in_use', ...sizes };
    return {
      state: 'read',
      ...sizes,
      ...(await readCopy(copy.database, readMark(highWater), limits.store_page_bytes)),
    };
  } catch (error) {
    return { state: 'unreadable', error: unreadable(error, database), ...sizes };
  } finally {
    copy?.remove();
  }
}

/** An open database has a WAL. Without one, the lock needs no check. */
export function isLocked(database: string): boolean {
  if (!existsSync(`${database}-wal`)) return false;
  const probe = new Database(database, { readonly: true, timeout: 0 });
  try {
    probe.pragma('schema_version');
    return false;
  } catch (error) {
    return codeOf(error).startsWith('SQLITE_BUSY');
  } finally {
    probe.close();
  }
}

export function refuseLarge({ database_bytes, wal_bytes }: StoreSizes, bytes_max: number): void {
  const bytes = database_bytes + wal_bytes;
  if (bytes > bytes_max)
    throw new SvcError(
      'store_failed',
      `The event log has ${bytes} bytes, too many to be copied and checked (inspect_bytes).`,
      { hint: 'Raise the limit inspect_bytes to have it checked.' },
    );
}

/** Opens the copy, and upgrades its tables. */
function openCopy(copy: string): Database.Database {
  const db = new Database(copy);
  bringForward(db);
  return db;
}

/** Upgrades the tables of a copy. The log has no name yet, so the copy gets none. */
export function bringForward(db: Database.Database): void {
  upgradeTables(db, () => null);
}

async function readCopy(
  copy: string,
  high_water: KnownMark | null,
  page_bytes: number,
): Promise<Omit<StoreContents, 'state' | keyof StoreSizes>> {
  const db = openCopy(copy);
  try {
    const reads = new Reads(db, page_bytes);
    const last_seq =
      db.prepare<[], number>('select coalesce(max(seq), 0) from events').pluck().get() ?? 0;
    return {
      last_seq,
      last_events: reads.readAll(last_seq - LAST_EVENTS + 1, LAST_EVENTS).map(fromEventRow),
      last_boot: readLastBoot(reads),
      runs: reads.countRuns(),
      unfinished_runs: reads.unfinishedRuns(),
      high_water,
      verify: await verifyLog(db, high_water, async () => {}),
    };
  } finally {
    db.close();
  }
}

function readLastBoot(reads: Reads): StoreContents['last_boot'] {
  const boot_id = reads.lastBootId();
  if (boot_id === null) return null;
  const events: StoredEvent[] = [];
  for (;;) {
    const page = reads.readStream(
      `daemon:${boot_id}`,
      events.length + 1,
      BOOT_EVENTS_MAX - events.length,
    );
    if (page.length === 0) return { boot_id, events, complete: events.length < BOOT_EVENTS_MAX };
    for (const row of page) events.push(fromEventRow(row));
  }
}

export function unreadable(error: unknown, database: string): SvcError {
  const code = codeOf(error);
  if (code === 'EACCES' || code === 'EPERM')
    return new SvcError(
      'home_unusable',
      `${(error as NodeJS.ErrnoException).path ?? database} cannot be read: ${whyUnusable(error)}.`,
      { cause: error },
    );
  if (code === 'ENOSPC')
    return new SvcError(
      'store_failed',
      `There is no space in ${dirname(database)} for a copy of the event log.`,
      { cause: error },
    );
  return asStoreError(error, database);
}
