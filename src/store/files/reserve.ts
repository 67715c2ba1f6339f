import { randomFillSync } from 'node:crypto';
import {
  closeSync,
  constants,
  fsyncSync,
  openSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { isFull } from '../failure.ts';

/**
 * The reserve: a file beside the database that does nothing but take up space, so that there is some for what must still be recorded when
 * the disk is full.
 *
 * 1. It is really written and synced, with bytes that no disk can compress: what it holds is there when it is given up.
 * 2. It is put back only where as much again is not taken by that at once: a little stays free beside it.
 * 3. Only the owner of the database touches it.
 */
export class Reserve {
  /** Whether it is there. */
  held = false;
  private readonly file: string;
  private readonly bytes: number;

  constructor(database: string, bytes: number) {
    this.file = reserveFile(database);
    this.bytes = bytes;
  }

  /** Makes it, unless it is there from before: true when it is. Throws what is not a want of space. */
  fill(): boolean {
    this.held = isWhole(this.file, this.bytes) || this.make();
    return this.held;
  }

  /** Gives its space back to the disk; false when there was none to give. */
  release(): boolean {
    this.held = false;
    try {
      rmSync(this.file);
      return true;
    } catch {
      return false;
    }
  }

  private make(): boolean {
    rmSync(this.file, { force: true });
    if (freeBytes(this.file) < this.bytes + SPARE_BYTES) return false;
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

/** Space on the disk of a file that a user may still take. */
export function freeBytes(file: string): number {
  const { bavail, bsize } = statfsSync(dirname(file));
  return bavail * bsize;
}

/** Whether it is there with all its blocks: a file with holes holds no space. */
export function isWhole(file: string, bytes: number): boolean {
  const found = statSync(file, { throwIfNoEntry: false });
  if (found === undefined || !found.isFile() || found.size !== bytes) return false;
  return process.platform === 'win32' || found.blocks * BLOCK_BYTES >= bytes;
}

/** Whether a write fails for want of space: the database does not tell a used up quota from a broken disk. */
export function canWriteBeside(database: string): boolean {
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

/** Stays free beside the reserve, so that the disk is not full again with the next commit. */
const SPARE_BYTES = 1024 * 1024;
const PROBE_BYTES = 65_536;
/** The unit of the count of blocks, whatever the disk has. */
const BLOCK_BYTES = 512;
const PIECE_BYTES = 1024 * 1024;

function removeIfPossible(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {
    // A disk that can no longer be written keeps it; it takes up little, and is written over the next time.
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
