import { closeSync, openSync, readSync } from 'node:fs';
import type Database from 'better-sqlite3';
import { SvcError } from '../../errors.ts';
import { generationsAhead, nextGeneration, pragma, schemaOf } from '../schema.ts';
import { sizeOf } from './database-file.ts';

/**
 * The generations of the WAL. The database applies any WAL that lies beside it, and so would change a backup that was put back beside the WAL of a later
 * state. The header of the database holds a generation.
 *
 * 1. The first or second commit of each WAL raises the generation by one; no WAL raises it twice.
 * 2. So the state in a WAL is at most one generation ahead of the state in the file it belongs to.
 */
export class WalGeneration {
  private readonly db: Database.Database;
  private readonly wal: string;
  /** Of the database itself; open as long as the database is, since closing it would let go of the lock. */
  private readonly file: number;
  private fd: number | null = null;
  private salt: Buffer = NONE;
  /** The present WAL has not raised the generation yet. */
  private due: boolean;

  constructor(db: Database.Database, database: string) {
    this.db = db;
    this.wal = walOf(database);
    this.file = openSync(database, 'r');
    const header = Buffer.alloc(4);
    readSync(this.file, header, 0, 4, USER_VERSION_AT);
    this.due = generationsAhead(userVersion(db), header.readUInt32BE(0)) === 0;
    this.salt = this.readSalt();
  }

  /** Call within a transaction. Whether the generation was raised in it. */
  raise(): boolean {
    if (!this.due) return false;
    this.db.pragma(`user_version = ${nextGeneration(userVersion(this.db))}`);
    return true;
  }

  /** Call after its commit. A new salt says that the database began the WAL again. */
  committed(raised: boolean): void {
    if (raised) this.due = false;
    const salt = this.readSalt();
    if (salt.equals(this.salt)) return;
    this.salt = salt;
    this.due = !raised;
  }

  /** Of the database, and of its WAL once there is one. */
  *descriptors(): Iterable<number> {
    yield this.file;
    if (this.fd !== null) yield this.fd;
  }

  /** Call when the database is closed. */
  close(): void {
    closeSync(this.file);
    if (this.fd !== null) closeSync(this.fd);
    this.fd = null;
  }

  private readSalt(): Buffer {
    const salt = Buffer.alloc(SALT_BYTES);
    try {
      this.fd ??= openSync(this.wal, 'r');
      readSync(this.fd, salt, 0, SALT_BYTES, SALT_AT);
    } catch {
      // There is no WAL before the first commit.
    }
    return salt;
  }
}

/** Refuses a WAL of another state of the log. `db` sees the state in the WAL, `in_file` is what the header of the file says. Throws store_corrupt. */
export function refuseForeignWal(db: Database.Database, database: string, in_file: number): void {
  const problem = walProblem(userVersion(db), in_file);
  if (problem === null) return;
  throw new SvcError('store_corrupt', `${problem} Nothing was changed.`, {
    hint: `If ${database} is a backup that was put back, move ${walOf(database)} away. Keep a copy of both before anything else.`,
  });
}

/** What is wrong between a database and the WAL beside it, as a sentence. */
export function walProblem(in_wal: number, in_file: number): string | null {
  if (
    schemaOf(in_file) < FIRST_SCHEMA ||
    schemaOf(in_wal) < FIRST_SCHEMA ||
    generationsAhead(in_wal, in_file) <= 1
  )
    return null;
  return 'The WAL beside the event log was written for another state of it.';
}

/** Refuses to begin an empty log beside the WAL of one that is gone: the database would delete it. Throws store_tail_lost. */
export function refuseLostDatabase(database: string): void {
  if (!hasWal(database)) return;
  throw new SvcError(
    'store_tail_lost',
    `The event log ${database} is gone, and its WAL is still there.`,
    {
      hint: `Put the database and its mark back. To begin an empty log, move ${walOf(database)} away.`,
    },
  );
}

export function hasWal(database: string): boolean {
  return sizeOf(walOf(database)) > 0;
}

export function walOf(database: string): string {
  return `${database}-wal`;
}

function userVersion(db: Database.Database): number {
  return Number(pragma(db, 'user_version'));
}

/** The first version of the tables that has generations. */
const FIRST_SCHEMA = 3;
const NONE = Buffer.alloc(0);
/** Where the header of a database has it. */
const USER_VERSION_AT = 60;
/** Where the header of a WAL has its salt. */
const SALT_AT = 16;
const SALT_BYTES = 8;
