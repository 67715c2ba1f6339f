import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readFile, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { whyUnusable } from '../causes.ts';
import { SvcError } from '../errors.ts';
import { writeAtomic } from './atomic-write.ts';
import type { Paths } from './paths.ts';
import { platform } from './platform.ts';

/**
 * Creates the private folders of the daemon. Refuses shared ones: prompts and answers are in
 * them.
 * Throws home_unusable, naming the folder.
 */
export async function prepareHome(paths: Paths, own_home: boolean): Promise<void> {
  const folders = [
    ...(own_home ? [paths.home] : []),
    paths.data,
    paths.logs,
    paths.models,
    paths.cache,
    dirname(paths.runtime),
    dirname(paths.config),
  ];
  for (const folder of new Set(folders)) {
    const made = await mkdir(folder, { recursive: true, mode: 0o700 }).catch(
      (error: NodeJS.ErrnoException) => {
        throw new SvcError(
          'home_unusable',
          `The folder ${folder} cannot be made: ${whyUnusable(error)}.`,
          { cause: error },
        );
      },
    );
    if (made !== undefined && platform.others !== 0) await chmod(folder, 0o700);
  }
  const shared = own_home ? [paths.home, paths.data] : [paths.data];
  for (const folder of shared) await refuseShared(folder);
}

async function refuseShared(folder: string): Promise<void> {
  const { mode, uid } = await stat(folder);
  if (!platform.isOwn(uid))
    throw new SvcError('home_unusable', `The folder ${folder} belongs to another user.`, {
      hint: `Run: chown -R "$USER" ${folder}, or choose another with SVC_HOME.`,
    });
  if ((mode & platform.others) !== 0) {
    const bits = (mode & 0o777).toString(8).padStart(4, '0');
    throw new SvcError('home_unusable', `Others can read the folder ${folder} (mode ${bits}).`, {
      hint: `Run: chmod 700 ${folder}`,
    });
  }
}

/**
 * A secret of this home, such as the token. The first start creates it, mode 0600.
 * Two concurrent first starts get the same secret.
 */
export async function readSecret(file: string): Promise<string> {
  const found = await readIfThere(file);
  if (isSecret(found)) {
    await tighten(file);
    return found.trim();
  }
  await writeSecret(file, found === null);
  const secret = await readIfThere(file);
  if (isSecret(secret)) return secret.trim();
  throw new SvcError('home_unusable', `The file ${file} changes while svc starts.`);
}

/** Null: no such file. Throws home_unusable. */
async function readIfThere(file: string): Promise<string | null> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new SvcError('home_unusable', `The file ${file} cannot be read: ${whyUnusable(cause)}.`, {
      cause,
    });
  }
}

/** Replaces a secret with a new one, and returns it. */
export async function replaceSecret(file: string): Promise<string> {
  return writeSecret(file, false);
}

async function writeSecret(file: string, keep: boolean): Promise<string> {
  const secret = randomBytes(32).toString('base64url');
  try {
    await writeAtomic(file, `${secret}\n`, { sync: true, keep });
    return secret;
  } catch (cause) {
    throw new SvcError(
      'home_unusable',
      `The file ${file} cannot be written: ${whyUnusable(cause)}.`,
      { cause },
    );
  }
}

/**
 * Makes a file private that an earlier version or another umask left open.
 * If that fails, the doctor names it.
 */
export async function tighten(file: string): Promise<void> {
  const mode = await stat(file).then(
    (found) => found.mode,
    () => 0,
  );
  if ((mode & platform.others) !== 0) await chmod(file, 0o600).catch(() => {});
}

/** Whether the text of a file is a secret. A truncated one is not. */
export function isSecret(text: string | null): text is string {
  return text !== null && SECRET.test(text.trim());
}

/** Only characters that a header can carry: any other makes a token that no client can send. */
const SECRET = /^[\x21-\x7e]{32,}$/;
