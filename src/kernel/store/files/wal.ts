import { closeSync, fdatasyncSync, openSync, readSync } from 'node:fs';
import type Database from 'better-sqlite3';
import { SvcError } from '../../../errors.ts';
import { generationsAhead, nextGeneration, pragma, schemaOf } from '../schema.ts';
import { sizeOf } from './database-file.ts';

/**
 * Commits to the WAL. It owns the descriptor of the WAL, and its generation.
 *
 * SQLite applies any WAL beside a database. So a backup that is restored beside a later WAL would
 * change. The header of the database therefore has a generation.
 *
 * 1. The first or second commit of each WAL raises the generation by one. No WAL raises it twice.
 * 2. So the state in a WAL is at most one generation ahead of its database file.
 * 3. `sync` makes all earlier commits durable. SQLite itself syncs only around a checkpoint.
 */
export class Wal {
  private readonly db: Database.Database;
  private readonly file: string;
  /** Descriptor of the database. It stays open, since closing it would release the lock. */
  private readonly databaseFd: number;
  private fd: number | null = null;
  private readonly commitStatement: Database.Statement<[]>;
  private salt: Buffer = NONE;
  /** The current WAL has not raised the generation. */
  private due: boolean;

  constructor(db: Database.Database, database: string) {
    this.db = db;
    this.file = walOf(database);
    this.databaseFd = openSync(database, 'r');
    this.commitStatement = db.prepare('commit');
    const header = Buffer.alloc(4);
    readSync(this.databaseFd, header, 0, 4, USER_VERSION_AT);
    this.due = generationsAhead(userVersion(db), header.readUInt32BE(0)) === 0;
    this.salt = this.readSalt();
  }

  /** Ends the transaction. It is durable after the next `sync`. */
  commit(): void {
    const raised = this.due;
    if (raised) this.db.pragma(`user_version = ${nextGeneration(userVersion(this.db))}`);
    this.commitStatement.run();
    if (raised) this.due = false;
    // A new salt means that SQLite restarted the WAL.
    const salt = this.readSalt();
    if (salt.equals(this.salt)) return;
    this.salt = salt;
    this.due = !raised;
  }

  /**
   * Makes all commits durable. SQLite has no `fdatasync` in this build: its `fsync` also waits for
   * the time of the file, which costs another write on most file systems. On a Mac, Node.js gets
   * past the cache of the disk.
   */
  sync(): void {
    fdatasyncSync(this.open());
  }

  /** Descriptors of the database, and of its WAL if there is one. */
  *descriptors(): Iterable<number> {
    yield this.databaseFd;
    if (this.fd !== null) yield this.fd;
  }

  /** Call when the database is closed. */
  close(): void {
    closeSync(this.databaseFd);
    if (this.fd !== null) closeSync(this.fd);
    this.fd = null;
  }

  /** Windows syncs only a descriptor that may write. */
  private open(): number {
    this.fd ??= openSync(this.file, 'r+');
    return this.fd;
  }

  private readSalt(): Buffer {
    const salt = Buffer.alloc(SALT_BYTES);
    try {
      readSync(this.open(), salt, 0, SALT_BYTES, SALT_AT);
    } catch {
      // There is no WAL before the first commit.
    }
    return salt;
  }
}

/**
 * Refuses the WAL of another state of the log. Throws store_corrupt.
 * `db` sees the state in the WAL; `in_file` is the header of the file.
 */
export function refuseForeignWal(db: Database.Database, database: string, in_file: number): void {
  const problem = walProblem(userVersion(db), in_file);
  if (problem === null) return;
  throw new SvcError('store_corrupt', `${problem} Nothing was changed.`, {
    hint:
      `If ${database} is a backup that was put back, move ${walOf(database)} away. ` +
      'Keep a copy of both before anything else.',
  });
}

/** The problem between a database and its WAL, as a sentence. */
export function walProblem(in_wal: number, in_file: number): string | null {
  if (
    schemaOf(in_file) < FIRST_SCHEMA ||
    schemaOf(in_wal) < FIRST_SCHEMA ||
    generationsAhead(in_wal, in_file) <= 1
  )
    return null;
  return 'The WAL beside the event log was written for another state of it.';
}

/**
 * Refuses to create an empty log beside the WAL of a lost one: SQLite would delete that WAL.
 * Throws store_tail_lost.
 */
export function refuseLostDatabase(database: string): void {
  if (!hasWal(database)) return;
  throw new SvcError(
    'store_tail_lost',
    `The event log ${database} is gone, and its WAL is still there.`,
    {
      hint:
        `Put the database and its mark back. To begin an empty log, move ${walOf(database)} ` +
        'away.',
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
/** Offset in the header of a database. */
const USER_VERSION_AT = 60;
/** Offset of the salt in the header of a WAL. */
const SALT_AT = 16;
const SALT_BYTES = 8;
