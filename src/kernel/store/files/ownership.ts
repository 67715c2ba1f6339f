import { realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

/**
 * The databases that this process has open.
 *
 * A file lock belongs to the process. On Unix, closing any descriptor of the file releases the
 * lock. So a second open in this process is refused before it touches the file.
 */
const owned = new Set<string>();

/**
 * Registers the database. Returns the function that releases it, or null if it is registered
 * already.
 */
export function own(database: string): (() => void) | null {
  const name = nameOf(database);
  if (owned.has(name)) return null;
  owned.add(name);
  return () => owned.delete(name);
}

export function isOwned(database: string): boolean {
  return owned.has(nameOf(database));
}

/** True if a thread of this process has a log open. A blocked disk may delay the exit then. */
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
      // The file does not exist yet: use the real path of its folder, or the given path.
    }
  }
  return resolve(database);
}
