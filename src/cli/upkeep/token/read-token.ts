import { readFileSync } from 'node:fs';
import { whyUnusable } from '../../../causes.ts';
import { SvcError } from '../../../errors.ts';

/** Reads the token of the home from its file, which works without a daemon. */
export function readToken(file: string): string {
  try {
    const token = readFileSync(file, 'utf8').trim();
    if (token !== '') return token;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT')
      throw new SvcError(
        'home_unusable',
        `The token file ${file} cannot be read: ${whyUnusable(error)}.`,
        { cause: error },
      );
  }
  throw new SvcError(
    'daemon_not_running',
    'There is no token yet: the first start of the daemon creates it.',
  );
}
