import { platform } from './platform.ts';

// Not imported: see paths.ts.
const fs = process.getBuiltinModule('node:fs');

// A stalled disk blocks the sync forms: only the thread of the store and the doctor use them.

/** Bytes that a user may still write on the disk of a folder. */
export async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await fs.promises.statfs(folder);
  return bavail * bsize;
}

export function freeBytesSync(folder: string): number {
  const { bavail, bsize } = fs.statfsSync(folder);
  return bavail * bsize;
}

/** Makes new names in a folder durable. Windows has no such call. */
export async function syncFolder(folder: string): Promise<void> {
  if (!platform.hasFolderSync) return;
  const handle = await fs.promises.open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export function syncFolderSync(folder: string): void {
  if (!platform.hasFolderSync) return;
  const fd = fs.openSync(folder, 'r');
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
