import { constants, copyFileSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { isAlive } from '../../../home/process-alive.ts';

/** A copy of a log, in a folder without other files. */
export interface Copy {
  database: string;
  /** Deletes the folder. */
  remove(): void;
}

/**
 * Copies a log that no process has open, with what is beside it. The copy is on the same disk: a
 * temporary folder may be memory, and some file systems let the copy share the blocks of the log.
 */
export function copyLog(database: string): Copy {
  const folder = makeFolder(database);
  const remove = () => rmSync(folder, { recursive: true, force: true });
  const copy = join(folder, 'events.db');
  try {
    for (const part of ['', '-wal', '-journal'])
      if (existsSync(database + part))
        copyFileSync(database + part, copy + part, constants.COPYFILE_FICLONE);
    return { database: copy, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

/** Deletes the copies that dead processes left beside a log. */
export function removeOldCopies(database: string): void {
  const folder = dirname(database);
  try {
    for (const name of readdirSync(folder)) {
      const pid = NAME.exec(name)?.[1];
      if (pid !== undefined && !isAlive(Number(pid)))
        rmSync(join(folder, name), { recursive: true, force: true });
    }
  } catch {
    // The next one tries again.
  }
}

/** Where an import writes a log before it takes the place of the empty one. */
export function importOf(database: string): string {
  return `${database}.importing`;
}

/** Deletes an import that was cut off. Who calls it has the lock of the log. */
export function removeImport(database: string): void {
  for (const part of ['', '-journal']) rmSync(importOf(database) + part, { force: true });
}

function makeFolder(database: string): string {
  removeOldCopies(database);
  const name = `svc-copy-${process.pid}-`;
  try {
    return mkdtempSync(join(dirname(database), name));
  } catch (error) {
    if (!UNWRITABLE.includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
    return mkdtempSync(join(tmpdir(), name));
  }
}

const NAME = /^svc-copy-(\d+)-/;
/** The log is on a disk that cannot be written, or is of another user. */
const UNWRITABLE = ['EROFS', 'EACCES', 'EPERM'];
