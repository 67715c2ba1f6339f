import { constants } from 'node:fs';
import { access, lstat, readFile, stat } from 'node:fs/promises';
import { dirname, sep } from 'node:path';
import { systemCode, whyUnusable } from '../causes.ts';
import { asSvcError, SvcError } from '../errors.ts';
import { readNodeFile } from '../fleet/index.ts';
import { targetOf } from '../home/atomic-write.ts';
import { isSecret } from '../home/home.ts';
import type { Paths } from '../home/paths.ts';
import { platform } from '../home/platform.ts';
import { AWAY, remedyFor } from '../home/remedy.ts';
import { reserveFile } from '../kernel/store/files/reserve.ts';
import { walOf } from '../kernel/store/files/wal.ts';
import { logFile } from '../logs/files.ts';

/**
 * The files that a start opens in its home, beside those of the configuration. The start and the
 * doctor read this list, so the doctor finds the problems that refuse a start.
 */
export interface HomeFile {
  path: string;
  kind: 'file' | 'folder' | 'socket';
  /**
   * The effect of an unusable file. `open`: the daemon cannot start. `replace`: a new one takes its
   * place, so only a thing of another kind refuses the start. `later`: the daemon starts without
   * it.
   */
  use: 'open' | 'replace' | 'later';
  /** The hint for a thing of another kind in its place. */
  away: string;
  /** Checks the content. Throws. */
  read?: (path: string) => unknown;
  /** The start continues with a file that `read` refuses. */
  goesOn?: boolean;
}

/** A problem of a file of the home. `stops`: no daemon can start. */
export interface HomeProblem extends Pick<HomeFile, 'path' | 'use'> {
  message: string;
  hint: string;
  stops: boolean;
}

const NODE = 'Put it back from a backup. Without it this home joins its fleet as a new node.';
const BACKUP = 'Move it away, and put the one of a backup in its place.';

/** `isShared`: the log is in a database of a fleet. */
export function homeFiles(paths: Paths, isShared: boolean): HomeFile[] {
  const file = (path: string, more: Partial<HomeFile> = {}): HomeFile => ({
    path,
    kind: 'file',
    use: 'open',
    away: AWAY,
    ...more,
  });
  const folder = (path: string, use: HomeFile['use'] = 'open') =>
    file(path, { kind: 'folder', use });
  const { database, highWater } = paths;
  const folders = new Set([paths.home, paths.data, paths.logs, paths.models, paths.cache]);
  const secret = (effect: string) => ({ read: refuseNoSecret(effect), goesOn: true });
  const log = [
    file(highWater, { away: BACKUP }),
    file(database, { away: BACKUP }),
    file(walOf(database), { away: BACKUP }),
    file(`${database}-journal`, { away: BACKUP }),
    file(`${database}-shm`, { use: 'replace' }),
    file(reserveFile(database), { use: 'replace' }),
  ];
  return [
    ...[...folders].map((path) => folder(path)),
    file(paths.stderr),
    file(paths.upgrade, { read: refuseOtherLock }),
    file(paths.lock, { read: refuseOtherLock }),
    file(`${paths.lock}-journal`, { use: 'replace' }),
    file(paths.runtime, { use: 'replace' }),
    ...(platform.hasSocketFile ? [file(paths.socket, { kind: 'socket', use: 'replace' })] : []),
    file(paths.token, secret('Programs with the old one are refused then.')),
    file(paths.secret, secret('A request that is repeated by its key may be refused then.')),
    file(paths.tokens, { read: readTokens, away: BACKUP }),
    ...(isShared ? [file(paths.node, { read: readNode, away: NODE })] : log),
    file(paths.sessions, { use: 'later' }),
    file(logFile(paths.logs, 0), { use: 'later' }),
    folder(paths.keys, 'later'),
    folder(paths.signIn, 'later'),
    folder(paths.adapters, 'later'),
  ];
}

/** All that is wrong with the files of a home. Changes none of them. */
export async function homeProblems(paths: Paths, isShared: boolean): Promise<HomeProblem[]> {
  const found = await Promise.all(homeFiles(paths, isShared).map(problemOf));
  const problems = found.filter((problem) => problem !== null);
  // A problem of a folder is not repeated for each file in it.
  return problems.filter(
    ({ path }) => !problems.some((above) => path.startsWith(above.path + sep)),
  );
}

/** Throws home_unusable for a problem that prevents any start. Returns the other problems. */
export async function refuseUnusable(paths: Paths, isShared: boolean): Promise<HomeProblem[]> {
  const problems = await homeProblems(paths, isShared);
  const first = problems.find(({ stops }) => stops);
  if (first === undefined) return problems.filter(({ use }) => use !== 'replace');
  throw new SvcError('home_unusable', first.message, { hint: first.hint });
}

async function problemOf(row: HomeFile): Promise<HomeProblem | null> {
  const { path, kind, use, away, read } = row;
  const problem = (message: string, hint: string, stops = use !== 'later'): HomeProblem => ({
    path,
    use,
    message,
    hint,
    stops,
  });
  try {
    const info = await stat(path);
    const isRight = kind === 'folder' ? info.isDirectory() : !info.isDirectory();
    if (!isRight) {
      const [is, needs] =
        kind === 'folder' ? ['not a folder', 'a folder'] : ['a folder', `a ${kind}`];
      return problem(`${path} is ${is}; svc needs ${needs} there.`, away);
    }
    if (kind === 'file' && !info.isFile())
      return problem(`${path} is not a file; svc needs a file there.`, away);
    if (kind === 'socket') return null;
    const { R_OK, W_OK, X_OK } = constants;
    await access(path, kind === 'folder' ? R_OK | W_OK | X_OK : R_OK | W_OK);
  } catch (error) {
    const code = systemCode(error);
    if (code === 'ENOENT' || code === 'ENOTDIR')
      return (await isLost(path)) ? problem(`${path} is a broken link.`, away) : null;
    const isReplaced = use === 'replace' && (code === 'EACCES' || code === 'EPERM');
    return problem(
      `${path} cannot be used: ${whyUnusable(error)}.`,
      remedyFor(path, error, { away, mode: kind === 'folder' ? '700' : '600' }),
      use !== 'later' && !isReplaced,
    );
  }
  try {
    await read?.(path);
    return null;
  } catch (thrown) {
    const { message, hint } = asSvcError(thrown);
    return problem(message, hint, use === 'open' && row.goesOn !== true);
  }
}

// Not imported above: the doctor starts without it.
const readTokens = async (path: string) =>
  (await import('../transport/auth/token-file.ts')).readTokens(path);
const readNode = async (path: string) => readNodeFile(path);

/** Whether it is a link to a place where no file can be made. */
async function isLost(path: string): Promise<boolean> {
  const link = await lstat(path).catch(() => null);
  return link !== null && (await stat(dirname(targetOf(path))).catch(() => null)) === null;
}

function refuseNoSecret(effect: string): (path: string) => Promise<void> {
  return async (path) => {
    if (isSecret(await readFile(path, 'utf8'))) return;
    throw new SvcError(
      'home_unusable',
      `${path} is damaged, so a start makes a new one. ${effect}`,
      { hint: 'To keep the old one, put it back from a backup before the start.' },
    );
  };
}

/** A lock is an empty file. It is not opened: its close would release a lock of this process. */
async function refuseOtherLock(path: string): Promise<void> {
  if ((await stat(path)).size > 0)
    throw new SvcError('home_unusable', `${path} is not a lock of svc.`, { hint: AWAY });
}
