import { access, constants, lstat, stat } from 'node:fs/promises';
import { platform } from '../../home/platform.ts';
import { reserveFile } from '../../store/files/reserve.ts';
import { type Check, type DoctorContext, fail } from './check.ts';

/** Whether each path of the home is a file, a folder or a socket as the daemon needs. */
export async function checkPlaces({ paths }: DoctorContext): Promise<Check[]> {
  const {
    database,
    highWater,
    token,
    tokens,
    secret,
    sessions,
    runtime,
    stderr,
    models,
    cache,
    signIn,
    socket,
  } = paths;
  const files = [
    database,
    highWater,
    reserveFile(database),
    token,
    tokens,
    secret,
    sessions,
    runtime,
    stderr,
  ];
  const found = await Promise.all([
    ...files.map(checkFile),
    ...[models, cache, signIn].map(checkIsFolder),
    checkSocket(socket),
  ]);
  return found.filter((check) => check !== null);
}

const AWAY = 'Move it away; svc creates a new one when it starts.';

async function checkFile(file: string): Promise<Check | null> {
  const info = await lstat(file).catch(() => null);
  if (info === null) return null;
  const target = info.isSymbolicLink() ? await stat(file).catch(() => null) : info;
  if (target === null) return fail('home', `${file} is a broken link.`, AWAY);
  if (!target.isFile())
    return fail(
      'home',
      `${file} is ${target.isDirectory() ? 'a folder' : 'not a file'}; svc needs a file there.`,
      AWAY,
    );
  const refusal = await access(file, constants.R_OK | constants.W_OK).then(
    () => null,
    ({ code }: NodeJS.ErrnoException) => code,
  );
  return refusal === null
    ? null
    : fail(
        'home',
        `The file ${file} cannot be read and written (${refusal}).`,
        `Run: chown "$USER" ${file}; chmod 600 ${file}`,
      );
}

async function checkIsFolder(folder: string): Promise<Check | null> {
  const info = await stat(folder).catch(() => null);
  return info === null || info.isDirectory()
    ? null
    : fail('home', `${folder} is not a folder; svc needs a folder there.`, AWAY);
}

/** On Windows it is a pipe, which is not a file. */
async function checkSocket(socket: string): Promise<Check | null> {
  const info = platform.hasSocketFile ? await lstat(socket).catch(() => null) : null;
  return info?.isDirectory()
    ? fail('home', `${socket} is a folder; svc needs its socket there.`, AWAY)
    : null;
}
