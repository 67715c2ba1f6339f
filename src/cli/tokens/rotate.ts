import { hasCode } from '../../errors.ts';
import { replaceSecret } from '../../home/home.ts';
import type { Paths } from '../../home/paths.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { print, printJson } from '../print/output.ts';
import { readToken } from './read-token.ts';

export async function run({ paths, json }: Context): Promise<number> {
  const token = await rotate(paths);
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
