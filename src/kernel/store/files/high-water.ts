import { hash } from 'node:crypto';
import {
  closeSync,
  constants,
  existsSync,
  fdatasyncSync,
  fsyncSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { syncFolderSync } from '../../../home/disk.ts';

/**
 * The high-water mark: a file that says how far the log had come, so that a truncated log is
 * noticed.
 *
 * 1. It is written after the commit is durable. On disk it is never ahead of a healthy log, and
 *    may be behind.
 * 2. Two slots are written in turn, each with a checksum. A torn write damages one; the other has
 *    the mark before.
 * 3. Writes are not synced: the page cache survives the death of the process. Every SYNC_EVERY
 *    commits, and at the close, they are. So a power cut can hide the loss of at most SYNC_EVERY
 *    commits.
 * 4. The first write of a log's name is synced with its folder. Only then does the log know of a
 *    mark.
 * 5. It carries the random name of its log. So a missing or foreign mark is noticed.
 * 6. A file with the one word `accept` is the user's decision to continue with the log as it is.
 * 7. If the mark cannot be written, the commit still succeeds: `trouble` says so, and the mark
 *    stays behind.
 * 8. A file that was removed is written again by `restore`, as the next open needs it.
 */

export interface Mark {
  seq: number;
  /** The hash of the event at `seq`, in hex. */
  hash: string;
}

/** A mark as the file has it. Older versions have no `log_id`. */
export interface KnownMark extends Mark {
  log_id: string | null;
}

/** What the file says. */
export interface MarkFile {
  mark: KnownMark | null;
  /** The user continues with the log as it is. */
  accepted: boolean;
}

const ACCEPT = 'accept';
const SYNC_EVERY = 128;
/** One disk sector, so that a write never touches the other slot. */
const SLOT_BYTES = 512;
const SLOT =
  /^(svc-high-water (?:1|2 ([0-9a-f]{32})) (\d{1,16}) ([0-9a-f]{64})) ([0-9a-f]{64})\s*$/;

/** Reads the mark. Null if the file is missing, or has no whole slot. */
export function readMark(file: string): KnownMark | null {
  return readMarkFile(file).mark;
}

export function readMarkFile(file: string): MarkFile {
  const bytes = readOrNothing(file);
  const [first, second] = slotsOf(bytes);
  return { mark: newer(first, second), accepted: bytes.toString('latin1').trim() === ACCEPT };
}

function newer(first: KnownMark | null, second: KnownMark | null): KnownMark | null {
  if (first === null || second === null) return first ?? second;
  return first.seq >= second.seq ? first : second;
}

export class HighWater {
  trouble: string | null = null;
  private fd: number;
  private readonly file: string;
  private readonly logId: string;
  private next: 0 | 1;
  private unsynced = 0;

  constructor(file: string, log_id: string) {
    const [first, second] = slotsOf(readOrNothing(file));
    this.file = file;
    this.logId = log_id;
    this.next = first && (!second || first.seq >= second.seq) ? 1 : 0;
    this.fd = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600);
  }

  write(mark: Mark): void {
    try {
      if (writeSync(this.fd, slot(mark, this.logId), this.next * SLOT_BYTES) !== SLOT_BYTES)
        throw new Error('a part was written');
      this.next = this.next === 0 ? 1 : 0;
      this.unsynced += 1;
      if (this.unsynced >= SYNC_EVERY) this.sync();
      this.trouble = null;
    } catch (error) {
      this.trouble = unwrittenText(error);
    }
  }

  /** Writes the mark to both slots, and syncs the file and its folder. */
  writeFirst(mark: Mark): void {
    for (const at of [0, SLOT_BYTES]) {
      if (writeSync(this.fd, slot(mark, this.logId), at) !== SLOT_BYTES)
        throw new Error('A part of the high-water mark was written.');
    }
    fsyncSync(this.fd);
    syncFolderSync(dirname(this.file));
  }

  /** Call while the log is in its place. Another file in the place of the mark stays. */
  restore(): void {
    if (existsSync(this.file)) return;
    try {
      const slots = Buffer.alloc(2 * SLOT_BYTES);
      const length = readSync(this.fd, slots, 0, slots.length, 0);
      const { O_RDWR, O_CREAT, O_EXCL } = constants;
      const fd = openSync(this.file, O_RDWR | O_CREAT | O_EXCL, 0o600);
      closeSync(this.fd);
      this.fd = fd;
      if (writeSync(fd, slots, 0, length, 0) !== length) throw new Error('a part was written');
      fsyncSync(fd);
      syncFolderSync(dirname(this.file));
    } catch (error) {
      this.trouble = unwrittenText(error);
    }
  }

  close(): void {
    try {
      this.sync();
    } finally {
      closeSync(this.fd);
    }
  }

  private sync(): void {
    fdatasyncSync(this.fd);
    this.unsynced = 0;
  }
}

function unwrittenText(error: unknown): string {
  return (
    'The high-water mark cannot be written ' +
    `(${(error as NodeJS.ErrnoException).code ?? 'cut short'}).`
  );
}

function slot({ seq, hash: at }: Mark, log_id: string): string {
  const body = `svc-high-water 2 ${log_id} ${seq} ${at}`;
  return `${`${body} ${hash('sha256', body)}`.padEnd(SLOT_BYTES - 1)}\n`;
}

function slotsOf(bytes: Buffer): [KnownMark | null, KnownMark | null] {
  return [
    readSlot(bytes.subarray(0, SLOT_BYTES)),
    readSlot(bytes.subarray(SLOT_BYTES, 2 * SLOT_BYTES)),
  ];
}

function readSlot(bytes: Buffer): KnownMark | null {
  const [, body, log_id = null, seq, at, sum] = SLOT.exec(bytes.toString('latin1')) ?? [];
  if (body === undefined || at === undefined || sum !== hash('sha256', body)) return null;
  return { seq: Number(seq), hash: at, log_id };
}

/** Reads both slots. A file that is not regular could block, so it is not read. */
function readOrNothing(file: string): Buffer {
  let fd: number;
  try {
    fd = openSync(file, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  }
  try {
    const bytes = Buffer.alloc(2 * SLOT_BYTES);
    return bytes.subarray(0, readSync(fd, bytes));
  } finally {
    closeSync(fd);
  }
}
