import { randomUUID } from 'node:crypto';
import { chmodSync, closeSync, openSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SvcError } from '../errors.ts';
import { platform } from './platform.ts';

/** Begins the lock on a file. Returns its release. Throws the error of SQLite. */
export type Begin = (file: string) => Promise<() => void>;

/**
 * Takes the lock `file` for this process, alone among all processes. Returns the function that
 * releases it; null while another one holds it. Throws home_unusable where the file system has no
 * locks.
 *
 * The lock is SQLite's, on an empty database. The operating system releases it when its process
 * dies. A pid file would need a takeover, which is a race. The file stays: removing it would let
 * two in.
 */
export async function tryLock(
  file: string,
  begin: Begin = beginExclusive,
): Promise<(() => void) | null> {
  const folder = dirname(file);
  keepOwn(file);
  try {
    const release = await begin(file);
    withLocks.add(folder);
    return release;
  } catch (error) {
    if (!isRefused(error)) throw error;
    if (!withLocks.has(folder)) await tryFolder(folder, begin);
    return null;
  }
}

/** Folders in which a lock was taken once. */
const withLocks = new Set<string>();

/** SQLite says the same of a lock that another process holds, and of a system without locks. */
async function tryFolder(folder: string, begin: Begin): Promise<void> {
  const fresh = join(folder, `lock-${randomUUID()}.tmp`);
  keepOwn(fresh);
  try {
    (await begin(fresh))();
    withLocks.add(folder);
  } catch (cause) {
    if (!isRefused(cause)) throw cause;
    throw new SvcError('home_unusable', `The file system of ${folder} has no file locks.`, {
      cause,
      hint: 'Set SVC_HOME to a folder on a local disk, or mount the share with locks.',
    });
  } finally {
    rmSync(fresh, { force: true });
  }
}

function isRefused(error: unknown): boolean {
  const code = (error as { code?: string }).code ?? '';
  return code === 'SQLITE_BUSY' || code === 'SQLITE_IOERR_LOCK';
}

async function beginExclusive(file: string): Promise<() => void> {
  const { default: Database } = await import('better-sqlite3');
  const database = new Database(file, { timeout: 0 });
  try {
    database.exec('BEGIN EXCLUSIVE');
    return () => database.close();
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * Only the user may read the file. A file that exists is not opened: its close would release the
 * lock of this process. SQLite says what is wrong with any other.
 */
function keepOwn(file: string): void {
  try {
    const mode = statSync(file, { throwIfNoEntry: false })?.mode;
    if (mode === undefined) closeSync(openSync(file, 'wx', 0o600));
    else if ((mode & platform.others) !== 0) chmodSync(file, mode & 0o700);
  } catch {}
}
