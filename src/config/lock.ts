import { setTimeout as wait } from 'node:timers/promises';
import { SvcError } from '../errors.ts';
import { tryLock } from '../home/file-lock.ts';
import { CONFIG_LOCK_MS } from '../limits.ts';

/** Runs `work` while it holds the lock `file`. Throws busy after `waitMs`. */
export async function withLock<T>(
  file: string,
  work: () => Promise<T>,
  waitMs = CONFIG_LOCK_MS,
): Promise<T> {
  for (const deadline = Date.now() + waitMs; ; ) {
    const release = await tryLock(file);
    if (release !== null) return work().finally(release);
    if (Date.now() >= deadline)
      throw new SvcError(
        'busy',
        `Another process holds ${file}; the configuration was not changed.`,
      );
    await wait(RETRY_MS);
  }
}

const RETRY_MS = 10;
