import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { syncFolder } from '../home/atomic-write.ts';

/** Where the files of one pull are, in the models folder. */
export interface PullPaths {
  folder: string;
  /** The model, once it is verified. */
  target: string;
  partial: string;
  /** What the partial file is a part of. */
  sidecar: string;
}

export async function preparePaths(folder: string, file: string): Promise<PullPaths> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const target = join(folder, file);
  return { folder, target, partial: `${target}.partial`, sidecar: `${target}.partial.json` };
}

/** Null where there is no file. */
export async function sizeOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** The whole file takes its name, durably. */
export async function putInPlace(paths: PullPaths): Promise<void> {
  await rename(paths.partial, paths.target);
  await syncFolder(paths.folder);
  await rm(paths.sidecar, { force: true });
}

export async function discard(paths: PullPaths): Promise<void> {
  await rm(paths.sidecar, { force: true });
  await rm(paths.partial, { force: true });
}
