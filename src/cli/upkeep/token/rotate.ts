import { hasCode } from '../../../errors.ts';
import { replaceSecret } from '../../../home/home.ts';
import type { Paths } from '../../../home/paths.ts';
import { askDaemon } from '../../terminal/connect/ask-daemon.ts';
import type { Context } from '../../terminal/context.ts';
import { note, print, printJson } from '../../terminal/print/output.ts';
import { readToken } from './read-token.ts';
import { endedText } from './revoke.ts';

export async function run({ paths, flags, json }: Context): Promise<number> {
  const keep_runs = flags['keep-runs'] === true;
  const rotated = await rotate(paths, keep_runs);
  if (json) printJson(rotated);
  else {
    print(rotated.token);
    const { cancelled } = rotated;
    if (cancelled > 0) note(`The old token has ended. ${endedText(cancelled, keep_runs)}`);
  }
  return 0;
}

interface Rotated {
  token: string;
  /** Runs of the home that were cancelled. */
  cancelled: number;
}

/**
 * A running daemon replaces the token and disconnects the clients of the old one. Without one, the
 * file is replaced; a daemon that started meanwhile may have read the old file, so the
 * request is repeated.
 */
async function rotate(paths: Paths, keep_runs: boolean): Promise<Rotated> {
  const attempt = () => askDaemon(paths, 'token.rotate', { keep_runs });
  return attempt().catch(async (error: unknown) => {
    if (!isNotRunning(error)) throw error;
    readToken(paths.token);
    const replaced = { token: await replaceSecret(paths.token), cancelled: 0 };
    return attempt().catch((late: unknown) => {
      if (isNotRunning(late)) return replaced;
      throw late;
    });
  });
}

function isNotRunning(error: unknown): boolean {
  return hasCode(error, 'daemon_not_running');
}
