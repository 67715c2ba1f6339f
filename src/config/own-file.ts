import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { whyUnusable } from '../causes.ts';
import { SvcError } from '../errors.ts';
import { targetOf, writeAtomic } from '../home/atomic-write.ts';
import { CONFIG_BYTES_MAX } from '../limits.ts';
import { withLock } from './lock.ts';

/**
 * Replaces a JSON file that only svc writes. Edits of several processes follow each other. `edit`
 * reads the file under the lock; null leaves it as it is. Throws home_unusable, busy,
 * invalid_request for values that no daemon could read again, and the errors of `edit`. A link
 * stays a link.
 */
export async function editOwnFile<T extends object | null>(
  file: string,
  edit: () => T,
): Promise<T> {
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    return await withLock(`${file}.lock`, async () => {
      const value = edit();
      if (value === null) return value;
      // Under the lock one draft at a time is written; that of a dead process is overwritten.
      const text = `${JSON.stringify(value, null, 2)}\n`;
      checkBytes(file, Buffer.byteLength(text));
      const target = targetOf(file);
      await writeAtomic(target, text, { sync: true, draft: `${target}.new` });
      return value;
    });
  } catch (error) {
    if (error instanceof SvcError) throw error;
    const why = whyUnusable(error);
    throw new SvcError('home_unusable', `${file} cannot be written: ${why}.`, { cause: error });
  }
}

function checkBytes(file: string, bytes: number): void {
  if (bytes <= CONFIG_BYTES_MAX) return;
  throw new SvcError(
    'invalid_request',
    `${file} would have ${bytes} bytes; at most ${CONFIG_BYTES_MAX} are read. Nothing has changed.`,
    { hint: 'Use shorter texts, or remove what you do not use.' },
  );
}
