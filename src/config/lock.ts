import { SvcError } from '../errors.ts';
import { awaitLock } from '../home/file-lock.ts';
import { CONFIG_LOCK_MS } from '../limits.ts';

/** Runs `work` while it holds the lock `file`. Throws busy after `waitMs`. */
export async function withLock<T>(
  file: string,
  work: () => Promise<T>,
  waitMs = CONFIG_LOCK_MS,
): Promise<T> {
  const release = await awaitLock(file, waitMs);
  if (release !== null) return work().finally(release);
  throw new SvcError('busy', `Another process holds ${file}; the configuration was not changed.`);
}
