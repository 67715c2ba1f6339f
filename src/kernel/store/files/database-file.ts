import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  mkdirSync,
  openSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { LOG_FORMAT } from '../../../../machines/events.ts';
import { SvcError } from '../../../errors.ts';
import { platform } from '../../../home/platform.ts';
import { programVersion } from '../../../home/version.ts';
import { asStoreError, isFull, unusable } from '../failure.ts';
import { APPLICATION_ID, schemaOf } from '../schema.ts';

/**
 * Checks the file before SQLite opens it, so that a foreign file never changes.
 * Returns whether an event log is there. Throws home_unusable and store_foreign.
 */
export function findDatabase(database: string): boolean {
  const folder = dirname(database);
  usable(folder, () => {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    accessSync(folder, constants.W_OK | constants.X_OK);
  });
  const found = statSync(database, { throwIfNoEntry: false });
  if (found === undefined) return false;
  usable(database, () => accessSync(database, constants.R_OK | constants.W_OK));
  if (found.isFile() && found.size === 0) return false;
  refuseForeign(database, readHeader(database));
  return true;
}

/** Creates an empty private file. SQLite gives its other files the same mode. */
export function makePrivate(database: string): void {
  usable(database, () => {
    closeSync(openSync(database, 'a', 0o600));
    if ((statSync(database).mode & platform.others) !== 0) chmodSync(database, 0o600);
  });
}

/** Reads the header, as far as the file has one. Throws store_foreign if it is not a file. */
export function readHeader(database: string): {
  magic: string;
  user_version: number;
  application_id: number;
} {
  if (!statSync(database).isFile())
    throw new SvcError('store_foreign', `${database} is not a file.`);
  const bytes = Buffer.alloc(HEADER_BYTES);
  const fd = openSync(database, 'r');
  try {
    readSync(fd, bytes);
  } finally {
    closeSync(fd);
  }
  return {
    magic: bytes.toString('latin1', 0, MAGIC.length),
    user_version: bytes.readUInt32BE(60),
    application_id: bytes.readUInt32BE(68),
  };
}

export function refuseForeign(
  database: string,
  { magic, user_version, application_id }: ReturnType<typeof readHeader>,
): void {
  if (magic !== MAGIC) throw new SvcError('store_foreign', `${database} is not a database.`);
  if (application_id !== APPLICATION_ID)
    throw new SvcError('store_foreign', `${database} is a database of another program.`);
  const format = schemaOf(user_version);
  if (format > LOG_FORMAT)
    throw new SvcError(
      'store_foreign',
      `A newer version of svc wrote ${database}: its format is ${format}, and svc ` +
        `${programVersion()} reads up to ${LOG_FORMAT}. Nothing was changed.`,
      { hint: 'Install that version again, or choose another home with SVC_HOME.' },
    );
}

/**
 * Copies the WAL before a log continues without its end: it may help to recover that end.
 * Never overwrites an earlier copy.
 */
export function keepWal(database: string): void {
  try {
    if (statSync(`${database}-wal`).size > 0)
      copyFileSync(`${database}-wal`, `${database}-wal.kept`, constants.COPYFILE_EXCL);
  } catch {
    // There may be no WAL, no space, or an earlier copy. The hint asked the user for a copy.
  }
}

/** A reader of a dead daemon's database leaves this file. Under our lock, no process uses it. */
export function removeSharedMemory(database: string): void {
  rmSync(`${database}-shm`, { force: true });
}

/** Bytes of the event log with its WAL. */
export function logBytes(database: string): number {
  return sizeOf(database) + sizeOf(`${database}-wal`);
}

/** A missing or unreadable file has no bytes. */
export function sizeOf(file: string): number {
  try {
    return statSync(file).size;
  } catch {
    return 0;
  }
}

export const MAGIC = 'SQLite format 3\0';
const HEADER_BYTES = 100;

function usable(path: string, attempt: () => void): void {
  try {
    attempt();
  } catch (error) {
    if (isFull(error)) throw asStoreError(error, path);
    throw unusable(path, error);
  }
}
