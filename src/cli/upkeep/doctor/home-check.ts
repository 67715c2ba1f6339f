import { mkdtemp, rmdir, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { platform } from '../../../home/platform.ts';
import { bytes } from '../../terminal/print/format.ts';
import { type Check, type DoctorContext, fail, ok, warn } from './check.ts';

const MIB = 1024 * 1024;
/** Below this the event log may soon be unable to grow. */
const FREE_LOW = 1024 * MIB;
const FREE_OUT = 64 * MIB;

/** These folders have prompts and answers: private to their owner. */
export async function checkFolders({ paths }: DoctorContext): Promise<Check[]> {
  const folders = [
    ...new Set([
      ...(process.env.SVC_HOME === undefined ? [] : [paths.home]),
      paths.data,
      paths.logs,
    ]),
  ];
  const found = await Promise.all(folders.map(checkFolder));
  const bad = found.filter((check) => check !== null);
  if (bad.length > 0) return bad;
  const problem = await whyNotMade(paths.data);
  return problem === null ? [ok('home', paths.home)] : [problem];
}

/** Whether a folder that is not there can be made: the nearest one above it must be writable. */
async function whyNotMade(folder: string): Promise<Check | null> {
  let above = folder;
  while ((await stat(above).catch(() => null)) === null && dirname(above) !== above)
    above = dirname(above);
  if (above === folder) return null;
  // A system folder such as /proc is writable by its mode. Only an attempt shows that it is not.
  const refusal = await mkdtemp(join(above, '.svc-doctor-')).then(
    (made) => rmdir(made).then(() => null),
    ({ code }: NodeJS.ErrnoException) => code ?? 'unknown reason',
  );
  return refusal === null
    ? null
    : fail(
        'home',
        `The folder ${folder} cannot be made in ${above} (${refusal}).`,
        'Choose another home with SVC_HOME.',
      );
}

async function checkFolder(folder: string): Promise<Check | null> {
  const info = await stat(folder).catch(() => null);
  if (!info?.isDirectory()) return null;
  if (!platform.isOwn(info.uid))
    return fail(
      'home',
      `The folder ${folder} belongs to another user.`,
      `Run: chown -R "$USER" ${folder}`,
    );
  const mode = info.mode & 0o777;
  return (mode & platform.others) === 0
    ? null
    : fail(
        'home',
        `Other users can read the folder ${folder} (mode ${mode.toString(8).padStart(4, '0')}).`,
        `Run: chmod 700 ${folder}`,
      );
}

export async function checkToken({ paths }: DoctorContext): Promise<Check[]> {
  const open = await openMode(paths.token);
  if (open === null) return [];
  if (open === '') return [ok('token', 'for its owner only')];
  return [
    fail(
      'token',
      `Other users can read the token ${paths.token} (mode ${open}).`,
      `Run: chmod 600 ${paths.token}, or delete it and restart to create a new one.`,
    ),
  ];
}

/** Others learn no token from it, but which programs have one. */
export async function checkTokens({ paths }: DoctorContext): Promise<Check[]> {
  const open = await openMode(paths.tokens);
  if (open === null || open === '') return [];
  return [
    warn(
      'token',
      `Other users can read the list of tokens ${paths.tokens} (mode ${open}).`,
      `Run: chmod 600 ${paths.tokens}`,
    ),
  ];
}

/** The mode of a file that others can read. Empty text: only its owner can. Null: no such file. */
async function openMode(file: string): Promise<string | null> {
  const info = await stat(file).catch(() => null);
  if (!info?.isFile()) return null;
  const mode = info.mode & 0o777;
  return (mode & platform.others) === 0 ? '' : mode.toString(8).padStart(4, '0');
}

export async function checkDisk({ paths }: DoctorContext): Promise<Check[]> {
  const info = await statfs(paths.data).catch(() => null);
  if (info === null) return [];
  const free = info.bavail * info.bsize;
  const detail = `${bytes(free)} free on the disk of the event log`;
  if (free < FREE_OUT)
    return [
      fail(
        'disk',
        `${detail}.`,
        'Free some space: the daemon refuses runs when the log cannot grow.',
      ),
    ];
  return [
    free < FREE_LOW ? warn('disk', `${detail}.`, 'Free some space soon.') : ok('disk', detail),
  ];
}
