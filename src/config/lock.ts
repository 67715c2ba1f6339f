import { setTimeout as wait } from 'node:timers/promises';
import { SvcError } from '../errors.ts';
import { CONFIG_LOCK_MS } from '../limits.ts';

/**
 * Runs the work while no other process, and nobody else in this one, holds the lock `file`.
 *
 * The lock is SQLite's on an empty database, so it is one of the operating system: it is gone with the process that held it,
 * however that died. A file with a pid in it would have to be taken over from a dead holder, which is a race of its own, and
 * a pid that is in use again looks alive for ever. The file stays; removing it would let two hold it. Throws busy after `wait_ms`.
 */
export async function withLock<T>(
  file: string,
  work: () => Promise<T>,
  wait_ms = CONFIG_LOCK_MS,
): Promise<T> {
  const { default: Database } = await import('better-sqlite3');
  const database = new Database(file, { timeout: 0 });
  try {
    const give_up = Date.now() + wait_ms;
    while (!hold(database)) {
      if (Date.now() >= give_up)
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

/** From one look at the lock to the next. */
const RETRY_MS = 10;

function hold(database: { exec(sql: string): unknown }): boolean {
  try {
    database.exec('BEGIN EXCLUSIVE');
    return true;
  } catch (error) {
    if ((error as { code?: string }).code === 'SQLITE_BUSY') return false;
    throw error;
  }
}
