import { randomBytes } from 'node:crypto';
import { chmod, link, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { SvcError } from '../errors.ts';
import type { Paths } from './paths.ts';

/**
 * Makes the folders of the daemon, private to their owner, and refuses ones that are not: prompts and answers are in them.
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
          `The folder ${folder} cannot be made (${error.code}).`,
          { cause: error },
        );
      },
    );
    if (made !== undefined && process.platform !== 'win32') await chmod(folder, 0o700);
  }
  const shared = own_home ? [paths.home, paths.data] : [paths.data];
  for (const folder of shared) await refuseShared(folder);
}

async function refuseShared(folder: string): Promise<void> {
  if (process.platform === 'win32') return;
  const { mode, uid } = await stat(folder);
  if (uid !== process.getuid?.())
    throw new SvcError('home_unusable', `The folder ${folder} belongs to another user.`, {
      hint: `Run: chown -R "$USER" ${folder}, or choose another with SVC_HOME.`,
    });
  if ((mode & 0o077) !== 0) {
    const bits = (mode & 0o777).toString(8).padStart(4, '0');
    throw new SvcError('home_unusable', `Others can read the folder ${folder} (mode ${bits}).`, {
      hint: `Run: chmod 700 ${folder}`,
    });
  }
}

/** A secret of this home, such as the token; made on the first start, mode 0600. Of two first starts at one time both get the same. */
export async function readSecret(file: string): Promise<string> {
  const found = await readFile(file, 'utf8').catch(() => null);
  if (isSecret(found)) {
    await tighten(file);
    return found.trim();
  }
  await put(file, (fresh) => (found === null ? place(fresh, file) : rename(fresh, file)));
  const secret = await readFile(file, 'utf8').catch(() => null);
  if (isSecret(secret)) return secret.trim();
  throw new SvcError('home_unusable', `The file ${file} holds no secret.`, {
    hint: `Delete it; a new one is made at the next start.`,
  });
}

/** Replaces a secret with a new one, whole, and returns it. */
export async function replaceSecret(file: string): Promise<string> {
  return put(file, (fresh) => rename(fresh, file));
}

/** Writes a new secret beside its place, and has it put there. */
async function put(file: string, move: (fresh: string) => Promise<void>): Promise<string> {
  const fresh = `${file}.${process.pid}.${randomBytes(4).toString('hex')}.tmp`;
  const secret = randomBytes(32).toString('base64url');
  try {
    await writeFile(fresh, `${secret}\n`, { mode: 0o600 });
    await move(fresh);
    return secret;
  } catch (cause) {
    throw new SvcError(
      'home_unusable',
      `The file ${file} cannot be written (${(cause as NodeJS.ErrnoException).code}).`,
      { cause },
    );
  } finally {
    // What went wrong before is what the caller needs to know.
    await rm(fresh, { force: true }).catch(() => {});
  }
}

/** A file of an earlier version, or of another umask, may be open to others. One that cannot be changed is for the doctor to name. */
export async function tighten(file: string): Promise<void> {
  if (process.platform === 'win32') return;
  const mode = await stat(file).then(
    (found) => found.mode,
    () => 0,
  );
  if ((mode & 0o077) !== 0) await chmod(file, 0o600).catch(() => {});
}

/** Gives the file its name unless another has it by now. A file system without links has the last one win. */
async function place(fresh: string, file: string): Promise<void> {
  await link(fresh, file).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') await rename(fresh, file);
  });
}

function isSecret(text: string | null): text is string {
  return text !== null && SECRET.test(text.trim());
}

/** What a header carries as it is: a damaged byte makes a token that no client can send. */
const SECRET = /^[\x21-\x7e]{32,}$/;
