import { constants } from 'node:fs';
import { copyFile, link, open, realpath, rm, stat } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import { SvcError } from '../errors.ts';
import { asPullError, pullError } from './failure.ts';
import { modelNameOf, readModelName } from './file-name.ts';
import { checkGguf } from './gguf/check.ts';
import type { Origins } from './origins.ts';
import { preparePaths, putInPlace, sizeOf } from './paths.ts';
import { sha256Of } from './sha256.ts';
import { checkSpace, type SpaceContext } from './space.ts';

export interface ImportInput {
  /** Absolute. */
  path: string;
  /** Null: the name of the file. */
  name: string | null;
}

export interface ImportContext extends SpaceContext {
  origins: Origins | null;
  /** Whether a pull writes this file. */
  isWriting(file: string): boolean;
}

/**
 * Puts a model file into the models folder: as a hard link where the disk allows it, else as a
 * copy. The file is checked as strictly as a download. Resolves with its path. Throws SvcError.
 */
export async function importModel(
  { path, name }: ImportInput,
  context: ImportContext,
  signal: AbortSignal,
): Promise<string> {
  try {
    const source = await findFile(path);
    const found = name === null ? modelNameOf(path) : readModelName(name);
    if (found === null)
      throw new SvcError('invalid_request', 'The name of the file is not valid for a model.', {
        param: 'name',
        hint: 'Name the model with --name.',
      });
    const file = `${found}.gguf`;
    if (context.isWriting(file)) throw pullError('busy', `A download writes ${file} now.`);
    const paths = await preparePaths(context.folder, file);
    if ((await sizeOf(paths.target)) !== null)
      throw pullError('model_exists', `A model ${found} exists already.`);
    await checkGguf(source.path, context.limits.model_header_bytes);
    const sha256 = await sha256Of(source.path, signal, async () => {});
    const draft = { ...paths, partial: `${paths.target}.import` };
    try {
      await linkOrCopy(source, draft.partial, context);
      if ((await sizeOf(paths.target)) !== null)
        throw pullError('model_exists', `A model ${found} exists already.`);
      await putInPlace(draft);
    } finally {
      await rm(draft.partial, { force: true });
    }
    const at = new Date().toISOString();
    await context.origins?.write(paths.target, file, {
      reference: source.path,
      url: null,
      revision: null,
      sha256,
      at,
    });
    return paths.target;
  } catch (thrown) {
    if (signal.aborted) throw new SvcError('pull_cancelled', 'The import was cancelled.');
    throw asPullError(thrown);
  }
}

async function findFile(path: string): Promise<{ path: string; size: number }> {
  const param = { param: 'path' };
  if (!isAbsolute(path)) throw new SvcError('invalid_request', 'The path is not absolute.', param);
  const real = await realpath(path).catch(() => null);
  const found = real === null ? null : await stat(real).catch(() => null);
  if (real === null || found === null || !found.isFile())
    throw new SvcError('model_unknown', `There is no file ${path} that the daemon can read.`, {
      ...param,
      hint: 'Check the path, and that the user of the daemon may read it.',
    });
  return { path: real, size: found.size };
}

async function linkOrCopy(
  source: { path: string; size: number },
  target: string,
  context: ImportContext,
): Promise<void> {
  await rm(target, { force: true });
  const linked = await link(source.path, target).then(
    () => true,
    () => false,
  );
  if (linked) return;
  await checkSpace(context, source.size);
  await copyFile(source.path, target, constants.COPYFILE_FICLONE);
  const handle = await open(target, 'r+');
  try {
    await handle.chmod(0o600);
    await handle.sync();
  } finally {
    await handle.close();
  }
}
