import { hash } from 'node:crypto';
import { closeSync, constants, fdatasyncSync, openSync, readSync, writeSync } from 'node:fs';

/**
 * The high-water mark: how far the log had come, kept in a file of its own, so that a log that lost its end is noticed.
 *
 * 1. It is written after the commit is durable: on disk it is never ahead of a healthy log, and may be behind.
 * 2. Two slots are written in turn, each with a checksum: a torn write harms one, and the other holds the mark before.
 * 3. A write is not synced, since the page cache survives the death of the process; each SYNC_EVERY commits and at the close it is. So after
 *    a power cut at most the loss of the last SYNC_EVERY commits goes unnoticed, and it costs under a hundredth of a commit's own sync.
 * 4. A mark that cannot be written is no reason to refuse a durable commit: `trouble` says so, and the mark stays behind.
 */

export interface Mark {
  seq: number;
  /** Hash of the event at `seq`, in hex. */
  hash: string;
}

const SYNC_EVERY = 128;
/** One disk sector, so that one write does not reach into the other slot's. */
const SLOT_BYTES = 512;
const SLOT = /^svc-high-water 1 (\d{1,16}) ([0-9a-f]{64}) ([0-9a-f]{64})\s*$/;

/** The mark of a file; null when there is none, or none that is whole. */
export function readMark(file: string): Mark | null {
  const [first, second] = readSlots(file);
  if (!first || !second) return first ?? second ?? null;
  return first.seq >= second.seq ? first : second;
}

export class HighWater {
  trouble: string | null = null;
  private readonly fd: number;
  private next: 0 | 1;
  private unsynced = 0;

  constructor(file: string) {
    const [first, second] = readSlots(file);
    this.next = first && (!second || first.seq >= second.seq) ? 1 : 0;
    this.fd = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600);
  }

  write(mark: Mark): void {
    try {
      if (writeSync(this.fd, slot(mark), this.next * SLOT_BYTES) !== SLOT_BYTES) throw new Error('a part was written');
      this.next = this.next === 0 ? 1 : 0;
      this.unsynced += 1;
      if (this.unsynced >= SYNC_EVERY) this.sync();
      this.trouble = null;
    } catch (error) {
      this.trouble = `The high-water mark cannot be written (${(error as NodeJS.ErrnoException).code ?? 'cut short'}).`;
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

function slot({ seq, hash: at }: Mark): string {
  const body = `svc-high-water 1 ${seq} ${at}`;
  return `${`${body} ${hash('sha256', body)}`.padEnd(SLOT_BYTES - 1)}\n`;
}

function readSlots(file: string): [Mark | null, Mark | null] {
  const bytes = readOrNothing(file);
  return [readSlot(bytes.subarray(0, SLOT_BYTES)), readSlot(bytes.subarray(SLOT_BYTES, 2 * SLOT_BYTES))];
}

function readSlot(bytes: Buffer): Mark | null {
  const [, seq, at, sum] = SLOT.exec(bytes.toString('latin1')) ?? [];
  if (seq === undefined || at === undefined || sum !== hash('sha256', `svc-high-water 1 ${seq} ${at}`)) return null;
  return { seq: Number(seq), hash: at };
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
