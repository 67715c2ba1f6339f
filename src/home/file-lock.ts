import { randomUUID } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  openSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { whyUnusable } from '../causes.ts';
import { SvcError } from '../errors.ts';
import { platform } from './platform.ts';
import { AWAY } from './remedy.ts';

/** Begins the lock on a file. Returns its release. Throws the error of SQLite. */
export type Begin = (file: string) => Promise<() => void>;

/**
 * Takes the lock `file` for this process, alone among all processes. Returns the function that
 * releases it; null while another one holds it. Throws home_unusable for a file that cannot be
 * locked, and where the file system has no locks.
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
    if (!isRefused(error)) throw lockErrorOf(file, error);
    if (!withLocks.has(folder)) await tryFolder(folder, begin);
    return null;
  }
}

/** Waits for the lock. Null: another process still holds it after `wait_ms`. */
export async function awaitLock(
  file: string,
  wait_ms: number,
  begin: Begin = beginExclusive,
): Promise<(() => void) | null> {
  for (const deadline = Date.now() + wait_ms; ; await delay(LOOK_MS)) {
    const release = await tryLock(file, begin);
    if (release !== null || Date.now() >= deadline) return release;
  }
}

const LOOK_MS = 10;

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
    if (!isRefused(cause)) throw lockErrorOf(fresh, cause);
    throw new SvcError('home_unusable', `The file system of ${folder} has no file locks.`, {
      cause,
      hint: 'Set SVC_HOME to a folder on a local disk, or mount the share with locks.',
    });
  } finally {
    rmSync(fresh, { force: true });
  }
}

function lockErrorOf(file: string, thrown: unknown): SvcError {
  const { code = '' } = thrown as { code?: string };
  const isOther = code === 'SQLITE_NOTADB';
  const cause = code.startsWith('SQLITE_IOERR') ? (writeError(file) ?? thrown) : thrown;
  return new SvcError(
    'home_unusable',
    `The lock ${file} cannot be taken: ${whyNot(file, cause)}.`,
    {
      cause,
      hint: isOther
        ? AWAY
        : 'Correct the owner and mode of the file and of its folder, and look at its disk.',
    },
  );
}

/** Why nothing can be written beside the file, such as a used up quota. Null: it can. */
function writeError(file: string): unknown {
  const probe = join(dirname(file), `lock-${randomUUID()}.tmp`);
  try {
    const fd = openSync(probe, 'wx', 0o600);
    try {
      writeSync(fd, Buffer.alloc(PROBE_BYTES), 0, null, 0);
    } finally {
      closeSync(fd);
    }
    return null;
  } catch (error) {
    return error;
  } finally {
    rmSync(probe, { force: true });
  }
}

const PROBE_BYTES = 4096;

/** SQLite does not say why a file cannot be opened. */
function whyNot(file: string, cause: unknown): string {
  try {
    if (statSync(file).isDirectory()) return 'it is a folder';
    accessSync(file, constants.R_OK | constants.W_OK);
    return (cause as { code?: string }).code === 'SQLITE_NOTADB'
      ? 'it is not a lock of svc'
      : whyUnusable(cause);
  } catch (error) {
    return whyUnusable(error);
  }
}

function isRefused(error: unknown): boolean {
  const code = (error as { code?: string }).code ?? '';
  return code === 'SQLITE_BUSY' || code === 'SQLITE_IOERR_LOCK';
}

/** A lock that lasts as long as a transaction of this file, which these statements begin. */
function beginBy(statements: string): Begin {
  return async (file) => {
    const { default: Database } = await import('better-sqlite3');
    const database = new Database(file, { timeout: 0 });
    try {
      database.exec(statements);
      return () => database.close();
    } catch (error) {
      database.close();
      throw error;
    }
  };
}

const beginExclusive = beginBy('BEGIN EXCLUSIVE');
/** Many may hold it so at one time, while none holds it alone. */
export const beginShared = beginBy('begin; select 1 from sqlite_schema');

/**
 * Only the user may read the file. A file that exists is not opened: its close would release the
 * lock of this process. SQLite reports the problem of any other.
 */
function keepOwn(file: string): void {
  try {
    const mode = statSync(file, { throwIfNoEntry: false })?.mode;
    if (mode === undefined) closeSync(openSync(file, 'wx', 0o600));
    else if ((mode & platform.others) !== 0) chmodSync(file, mode & 0o700);
  } catch {}
}
