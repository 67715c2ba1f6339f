import { readFileSync, statSync } from 'node:fs';
import { whyUnusable } from '../../causes.ts';
import { SvcError } from '../../errors.ts';
import { platform } from '../../home/platform.ts';
import { KEY_FILE_BYTES_MAX } from '../../limits.ts';
import type { Config } from '../config.ts';

/**
 * The password of the store: that of its address, else of its file. Null: the variable PGPASSWORD,
 * or none. Throws config_invalid.
 */
export function storePassword({
  storePassword: password = null,
  store_password_file: file,
}: Pick<Config, 'storePassword' | 'store_password_file'>): string | null {
  return password ?? (file === null ? null : readPasswordFile(file));
}

/** The content of `store_password_file`. Throws config_invalid. */
export function readPasswordFile(file: string): string {
  const refuse = (what: string, hint: string, cause?: unknown): never => {
    throw new SvcError('config_invalid', `store_password_file ${file} ${what}.`, { hint, cause });
  };
  try {
    const stat = statSync(file);
    if (!stat.isFile() || stat.size > KEY_FILE_BYTES_MAX)
      return refuse('is not a password file', 'Its content is the password, in one line.');
    if ((stat.mode & platform.others) !== 0)
      return refuse('can be used by other users', `Let only its owner read it: chmod 600 ${file}`);
    return readFileSync(file, 'utf8').replace(/\r?\n$/, '');
  } catch (error) {
    if (error instanceof SvcError) throw error;
    return refuse(
      `cannot be read: ${whyUnusable(error)}`,
      'Correct the path, or its owner and mode.',
      error,
    );
  }
}
