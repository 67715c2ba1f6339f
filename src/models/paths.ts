import { mkdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { renameOver } from '../home/atomic-write.ts';
import { syncFolder } from '../home/disk.ts';

/** Paths of one pull in the models folder. */
export interface PullPaths {
  folder: string;
  /** The verified model. */
  target: string;
  partial: string;
  /** Identity of the partial file. */
  sidecar: string;
}

export async function preparePaths(folder: string, file: string): Promise<PullPaths> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const target = join(folder, file);
  return { folder, target, partial: `${target}.partial`, sidecar: `${target}.partial.json` };
}

/** Null: there is no file. */
export async function sizeOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** Renames the complete file, durably. */
export async function putInPlace(paths: PullPaths): Promise<void> {
  await renameOver(paths.partial, paths.target);
  await syncFolder(paths.folder);
  await rm(paths.sidecar, { force: true });
}

export async function discard(paths: PullPaths): Promise<void> {
  await rm(paths.sidecar, { force: true });
  await rm(paths.partial, { force: true });
}
