import { constants } from 'node:fs';
import { copyFile, link, open, readdir, realpath, rm } from 'node:fs/promises';
import { basename, dirname, isAbsolute } from 'node:path';
import { SvcError } from '../errors.ts';
import { ANOTHER, asPullError, pullError } from './failure.ts';
import { modelNameOf, readModelName } from './file-name.ts';
import { checkGguf } from './gguf/check.ts';
import { filesOfModel, firstPartOf, partPath, partsOf, withoutPart } from './gguf/parts.ts';
import { sha256Of } from './gguf/sha256.ts';
import type { Origins } from './origins.ts';
import { type PullPaths, preparePaths, putInPlace, sizeOf } from './paths.ts';
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
 * Puts a model into the models folder, with all its parts: as hard links where the disk allows it,
 * else as copies. It is checked as strictly as a download. Resolves with the path of its first
 * part. Throws SvcError.
 */
export async function importModel(
  { path, name }: ImportInput,
  context: ImportContext,
  signal: AbortSignal,
): Promise<string> {
  try {
    const { size_bytes } = await findFile(path);
    const found = name === null ? modelNameOf(path) : readModelName(name);
    if (found === null)
      throw new SvcError('invalid_request', 'The name of the file is not valid for a model.', {
        param: 'name',
        hint: 'Name the model with --name.',
      });
    const file = `${found}.gguf`;
    if (context.isWriting(file))
      throw pullError('busy', `A download writes ${file} now.`, { hint: ANOTHER });
    const paths = await preparePaths(context.folder, file);
    await refuseExisting(found, paths.target);
    const source = firstPartOf(path);
    await checkGguf(source, context.limits.model_header_bytes);
    const sha256 = await sha256Of(source, signal);
    const sources = partsOf(path);
    const drafts = sources.map((_, index): PullPaths => {
      const target = partPath(paths.target, index, sources.length);
      return { ...paths, target, partial: `${target}.import` };
    });
    const placed: string[] = [];
    try {
      let left = size_bytes;
      for (const [index, { partial }] of drafts.entries()) {
        await linkOrCopy(sources[index] ?? '', partial, left, context);
        left -= (await sizeOf(partial)) ?? 0;
      }
      await refuseExisting(found, paths.target);
      for (const draft of drafts) {
        await putInPlace(draft);
        placed.push(draft.target);
      }
    } finally {
      const left = placed.length === drafts.length ? [] : placed;
      for (const each of [...left, ...drafts.map(({ partial }) => partial)])
        await rm(each, { force: true });
    }
    const at = new Date().toISOString();
    const target = firstPartOf(placed[0] ?? '');
    await context.origins?.write(target, basename(target), {
      reference: await realpath(source),
      url: null,
      revision: null,
      sha256,
      at,
    });
    return target;
  } catch (thrown) {
    if (signal.aborted) throw new SvcError('pull_cancelled', 'The import was cancelled.');
    throw asPullError(thrown);
  }
}

/** In one file, or in parts. */
async function refuseExisting(name: string, target: string): Promise<void> {
  const names = (await readdir(dirname(target))).map(withoutPart);
  if (names.includes(basename(target)) || (await sizeOf(target)) !== null)
    throw pullError('model_exists', `A model ${name} exists already.`);
}

async function findFile(path: string): Promise<{ size_bytes: number }> {
  const param = { param: 'path' };
  if (!isAbsolute(path)) throw new SvcError('invalid_request', 'The path is not absolute.', param);
  const found = await filesOfModel(path).catch(() => null);
  if (found === null)
    throw new SvcError('model_unknown', `There is no file ${path} that the daemon can read.`, {
      ...param,
      hint: 'Check the path, and that the user of the daemon may read it.',
    });
  return found;
}

/** `bytes`: the space for a copy of this part and the next ones. */
async function linkOrCopy(
  path: string,
  target: string,
  bytes: number,
  context: ImportContext,
): Promise<void> {
  await rm(target, { force: true });
  const source = await realpath(path);
  const linked = await link(source, target).then(
    () => true,
    () => false,
  );
  if (linked) return;
  await checkSpace(context, bytes);
  await copyFile(source, target, constants.COPYFILE_FICLONE);
  const handle = await open(target, 'r+');
  try {
    await handle.chmod(0o600);
    await handle.sync();
  } finally {
    await handle.close();
  }
}
