import { hash } from 'node:crypto';
import {
  closeSync,
  constants,
  fdatasyncSync,
  fsyncSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';

/**
 * The high-water mark: how far the log had come, kept in a file of its own, so that a log that lost its end is noticed.
 *
 * 1. It is written after the commit is durable: on disk it is never ahead of a healthy log, and may be behind.
 * 2. Two slots are written in turn, each with a checksum: a torn write harms one, and the other holds the mark before.
 * 3. A write is not synced, since the page cache survives the death of the process; each SYNC_EVERY commits and at the close it is. So after
 *    a power cut at most the loss of the last SYNC_EVERY commits goes unnoticed, and it costs under a hundredth of a commit's own sync.
 *    The first write of a log's name is synced with its folder: the log does not know of a mark before there is one.
 * 4. It carries the random name of its log, which the log knows too: so a mark that is missing, or that of another log, is noticed.
 * 5. A file that has the one word `accept` is the user's decision to go on with the log as it is.
 * 6. A mark that cannot be written is no reason to refuse a durable commit: `trouble` says so, and the mark stays behind.
 */

export interface Mark {
  seq: number;
  /** Hash of the event at `seq`, in hex. */
  hash: string;
}

/** A mark as it is in its file. `log_id` is null in the file of an older version. */
export interface KnownMark extends Mark {
  log_id: string | null;
}

/** What the file of the mark holds. */
export interface MarkFile {
  mark: KnownMark | null;
  /** The user goes on with the log as it is. */
  accepted: boolean;
}

const ACCEPT = 'accept';
const SYNC_EVERY = 128;
/** One disk sector, so that one write does not reach into the other slot's. */
const SLOT_BYTES = 512;
const SLOT =
  /^(svc-high-water (?:1|2 ([0-9a-f]{32})) (\d{1,16}) ([0-9a-f]{64})) ([0-9a-f]{64})\s*$/;

/** The mark of a file; null when there is none, or none that is whole. */
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
  private readonly fd: number;
  private readonly file: string;
  private readonly log_id: string;
  private next: 0 | 1;
  private unsynced = 0;

  constructor(file: string, log_id: string) {
    const [first, second] = slotsOf(readOrNothing(file));
    this.file = file;
    this.log_id = log_id;
    this.next = first && (!second || first.seq >= second.seq) ? 1 : 0;
    this.fd = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600);
  }

  write(mark: Mark): void {
    try {
      if (writeSync(this.fd, slot(mark, this.log_id), this.next * SLOT_BYTES) !== SLOT_BYTES)
        throw new Error('a part was written');
      this.next = this.next === 0 ? 1 : 0;
      this.unsynced += 1;
      if (this.unsynced >= SYNC_EVERY) this.sync();
      this.trouble = null;
    } catch (error) {
      this.trouble = `The high-water mark cannot be written (${(error as NodeJS.ErrnoException).code ?? 'cut short'}).`;
    }
  }

  /** Writes the mark to both slots, and waits until it is on disk with its name in the folder. Throws what went wrong. */
  writeFirst(mark: Mark): void {
    for (const at of [0, SLOT_BYTES]) {
      if (writeSync(this.fd, slot(mark, this.log_id), at) !== SLOT_BYTES)
        throw new Error('A part of the high-water mark was written.');
    }
    fsyncSync(this.fd);
    if (process.platform !== 'win32') syncFolder(dirname(this.file));
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

function slot({ seq, hash: at }: Mark, log_id: string): string {
  const body = `svc-high-water 2 ${log_id} ${seq} ${at}`;
  return `${`${body} ${hash('sha256', body)}`.padEnd(SLOT_BYTES - 1)}\n`;
}

function syncFolder(folder: string): void {
  const fd = openSync(folder, constants.O_RDONLY);
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
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

/** The two slots, as far as they are there. A file that is no regular one must not hold us up. */
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
