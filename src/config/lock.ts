import { setTimeout as wait } from 'node:timers/promises';
import { SvcError } from '../errors.ts';
import { CONFIG_LOCK_MS } from '../limits.ts';

/**
 * Runs `work` while it holds the lock `file`, alone among all processes.
 *
 * The lock is SQLite's, on an empty database. The operating system releases it when its process
 * dies. A pid file would need a takeover, which is a race. The file stays: removing it would let
 * two in. Throws busy after `waitMs`.
 */
export async function withLock<T>(
  file: string,
  work: () => Promise<T>,
  waitMs = CONFIG_LOCK_MS,
): Promise<T> {
  const { default: Database } = await import('better-sqlite3');
  const database = new Database(file, { timeout: 0 });
  try {
    const deadline = Date.now() + waitMs;
    while (!tryLock(database)) {
      if (Date.now() >= deadline)
        throw new SvcError(
          'busy',
          `Another process holds ${file}; the configuration was not changed.`,
        );
      await wait(RETRY_MS);
    }
    return await work();
  } finally {
    database.close();
  }
}

const RETRY_MS = 10;

function tryLock(database: { exec(sql: string): unknown }): boolean {
  try {
    database.exec('BEGIN EXCLUSIVE');
    return true;
  } catch (error) {
    if ((error as { code?: string }).code === 'SQLITE_BUSY') return false;
    throw error;
  }
}
