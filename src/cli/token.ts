import { readFileSync } from 'node:fs';
import { hasCode, SvcError } from '../errors.ts';
import { replaceSecret } from '../home/home.ts';
import type { Paths } from '../home/paths.ts';
import { askDaemon } from './connect/ask-daemon.ts';
import type { Context } from './context.ts';
import { print, printJson } from './print/output.ts';

/** Reads the token from its file, which works without a daemon. A start keeps the token. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const [action] = args;
  if (action !== undefined && action !== 'rotate')
    throw new SvcError('usage', `token takes rotate or nothing, not ${JSON.stringify(action)}.`);
  const token = action === 'rotate' ? await rotate(paths) : readToken(paths.token);
  if (json) printJson({ token });
  else print(token);
  return 0;
}

/**
 * A running daemon replaces the token and disconnects the clients of the old one. Without one, the
 * file is replaced; a daemon that started meanwhile may have read the old file, so it is asked
 * again.
 */
async function rotate(paths: Paths): Promise<string> {
  const asked = async () => (await askDaemon(paths, 'token.rotate')).token;
  return asked().catch(async (error: unknown) => {
    if (!isNotRunning(error)) throw error;
    readToken(paths.token);
    const token = await replaceSecret(paths.token);
    return asked().catch((late: unknown) => {
      if (isNotRunning(late)) return token;
      throw late;
    });
  });
}

function isNotRunning(error: unknown): boolean {
  return hasCode(error, 'daemon_not_running');
}

export function readToken(file: string): string {
  try {
    const token = readFileSync(file, 'utf8').trim();
    if (token !== '') return token;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT')
      throw new SvcError('home_unusable', `The token file ${file} cannot be read (${code}).`, {
        cause: error,
      });
  }
  throw new SvcError(
    'daemon_not_running',
    'There is no token yet: the first start of the daemon creates it.',
  );
}
