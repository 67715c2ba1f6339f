import { realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

/**
 * The databases that this process owns. A lock of the file belongs to the process, and on unix systems it is lost as soon as any code of the process
 * opens and closes the file: so a second look at it from the same process is refused before it is touched.
 */
const owned = new Set<string>();

/** Null when this process owns the database already; else the way to give it back. */
export function own(database: string): (() => void) | null {
  const name = nameOf(database);
  if (owned.has(name)) return null;
  owned.add(name);
  return () => owned.delete(name);
}

export function isOwned(database: string): boolean {
  return owned.has(nameOf(database));
}

/** Whether a thread of this process has a log open: it may be held up by the disk, and then an exit would wait for it. */
export function ownsAny(): boolean {
  return owned.size > 0;
}

function nameOf(database: string): string {
  for (const attempt of [
    () => realpathSync(database),
    () => join(realpathSync(dirname(database)), basename(database)),
  ]) {
    try {
      return attempt();
    } catch {
      // Not made yet: then its folder's name says enough, or its own as it was given.
    }
  }
  return resolve(database);
}
