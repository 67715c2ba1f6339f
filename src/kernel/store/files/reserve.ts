import { randomFillSync } from 'node:crypto';
import { closeSync, constants, fsyncSync, openSync, rmSync, statSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { freeBytesSync } from '../../../home/disk.ts';
import { platform } from '../../../home/platform.ts';
import { codeOf, isFull } from '../failure.ts';

/**
 * The reserve: a file that only uses space. It is deleted on a full disk, so that the last events
 * fit.
 *
 * 1. It is written and synced, with random bytes: no file system can compress it.
 * 2. It is created again only if SPARE_BYTES stay free beside it.
 * 3. Only the owner of the database touches it.
 */
export class Reserve {
  /** Whether the file is there. */
  exists = false;
  private readonly file: string;
  private readonly bytes: number;

  constructor(database: string, bytes: number) {
    this.file = reserveFile(database);
    this.bytes = bytes;
  }

  /**
   * Creates the file if it is missing. True if it is there. Throws anything but a lack of space.
   */
  fill(): boolean {
    this.exists = isWhole(this.file, this.bytes) || this.make();
    return this.exists;
  }

  /** Deletes the file. False if there was none. */
  release(): boolean {
    this.exists = false;
    try {
      rmSync(this.file);
      return true;
    } catch {
      return false;
    }
  }

  private make(): boolean {
    rmSync(this.file, { force: true });
    if (freeBytesSync(dirname(this.file)) < this.bytes + SPARE_BYTES) return false;
    try {
      write(this.file, this.bytes);
      return true;
    } catch (error) {
      rmSync(this.file, { force: true });
      if (isFull(error)) return false;
      throw error;
    }
  }
}

export function reserveFile(database: string): string {
  return join(dirname(database), 'events.reserve');
}

/** True if all blocks of the file are allocated: a sparse file reserves nothing. */
export function isWhole(file: string, bytes: number): boolean {
  const found = statSync(file, { throwIfNoEntry: false });
  if (found === undefined || !found.isFile() || found.size !== bytes) return false;
  return !platform.hasBlocks || found.blocks * BLOCK_BYTES >= bytes;
}

/** True if there was no space. SQLite reports a used up quota as a broken disk. */
export function isOutOfSpace(thrown: unknown, database: string): boolean {
  return isFull(thrown) || (codeOf(thrown).startsWith('SQLITE_IOERR') && !canWriteBeside(database));
}

/** False if a write fails for lack of space. */
function canWriteBeside(database: string): boolean {
  const probe = join(dirname(database), 'events.probe');
  try {
    write(probe, PROBE_BYTES);
    return true;
  } catch (error) {
    return !isFull(error);
  } finally {
    removeIfPossible(probe);
  }
}

/** Stays free beside the reserve, so that the next commit does not fill the disk again. */
const SPARE_BYTES = 1024 * 1024;
const PROBE_BYTES = 65_536;
/** The unit of `blocks`, on every disk. */
const BLOCK_BYTES = 512;
const PIECE_BYTES = 1024 * 1024;

function removeIfPossible(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {
    // The disk refuses: the file is small, and the next probe overwrites it.
  }
}

function write(file: string, bytes: number): void {
  const fd = openSync(file, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC, 0o600);
  try {
    for (let at = 0; at < bytes; )
      at += writeSync(
        fd,
        randomFillSync(Buffer.allocUnsafe(Math.min(PIECE_BYTES, bytes - at))),
        0,
        null,
        at,
      );
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
