import {
  closeSync,
  fchmodSync,
  fstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { platform } from '../home/platform.ts';
import { logFile, logIndexes } from './files.ts';
import type { LogStream } from './log.ts';

/**
 * The log on disk. Appends lines to `svc.log`, and rotates before the file exceeds its size.
 *
 * 1. When `write` returns, the operating system has the line. A process killed next has it on
 *    disk.
 * 2. All files together stay within `file_bytes * files`. A line is never split over two files.
 * 3. It never throws. It counts lines that it cannot write, and the next line reports the count.
 * 4. Each line begins on a new line, also after a write that was cut short.
 */
export interface RotatingFileOptions {
  folder: string;
  file_bytes: number;
  files: number;
  /** The line that counts lost lines. */
  lostLine(lost: number, reason: string): string;
  /** Replaces the disk in tests. Returns the bytes it wrote. */
  write?: (fd: number, data: Buffer, offset: number) => number;
}

export class RotatingFile implements LogStream {
  private readonly options: RotatingFileOptions;
  private readonly put: (fd: number, data: Buffer, offset: number) => number;
  private fd: number | null = null;
  private size = 0;
  /** The file ends in the middle of a line. */
  private torn = false;
  private missed = 0;
  private reason = '';
  private closed = false;

  constructor(options: RotatingFileOptions) {
    this.options = options;
    this.put = options.write ?? ((fd, data, offset) => writeSync(fd, data, offset));
    this.attempt(() => this.open());
  }

  /** Lost lines that no line has reported. */
  get lost(): number {
    return this.missed;
  }

  write(line: string): void {
    if (this.closed) return;
    if (
      this.missed > 0 &&
      this.attempt(() => this.append(this.options.lostLine(this.missed, this.reason)))
    )
      this.missed = 0;
    if (this.missed > 0 || !this.attempt(() => this.append(line))) this.missed += 1;
  }

  close(): void {
    this.closed = true;
    this.release();
  }

  private append(line: string): void {
    const fd = this.prepare(Buffer.byteLength(line) + 2);
    const data = Buffer.from(`${this.torn ? '\n' : ''}${line}\n`);
    const start = this.size;
    try {
      for (let written = 0; written < data.length; ) {
        const taken = this.put(fd, data, written);
        if (taken === 0) throw Object.assign(new Error('nothing was written'), { code: 'ENOSPC' });
        written += taken;
        this.size += taken;
      }
      this.torn = false;
    } catch (error) {
      this.torn ||= this.size > start;
      throw error;
    }
  }

  /** A file that is still in its folder, with room for these bytes. */
  private prepare(bytes: number): number {
    if (this.fd !== null && fstatSync(this.fd).nlink === 0) this.release();
    const fd = this.fd ?? this.open();
    if (this.size === 0 || this.size + bytes <= this.options.file_bytes) return fd;
    this.rotate();
    return this.open();
  }

  private open(): number {
    const { folder, files } = this.options;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    for (const index of logIndexes(folder))
      if (index >= files) rmSync(logFile(folder, index), { force: true });
    const fd = openSync(logFile(folder, 0), 'a+', 0o600);
    this.fd = fd;
    const { size, mode } = fstatSync(fd);
    if ((mode & platform.others) !== 0) fchmodSync(fd, 0o600);
    this.size = size;
    this.torn = size > 0 && lastByte(fd, size) !== NEWLINE;
    return fd;
  }

  /** Renames every file to the next number. The oldest is deleted. */
  private rotate(): void {
    const { folder, files } = this.options;
    this.release();
    rmSync(logFile(folder, files - 1), { force: true });
    for (const index of logIndexes(folder).reverse())
      if (index < files - 1) renameSync(logFile(folder, index), logFile(folder, index + 1));
  }

  private release(): void {
    if (this.fd === null) return;
    const { fd } = this;
    this.fd = null;
    this.attempt(() => closeSync(fd));
  }

  private attempt(act: () => void): boolean {
    try {
      act();
      return true;
    } catch (error) {
      this.reason = (error as NodeJS.ErrnoException).code ?? 'unknown';
      return false;
    }
  }
}

const NEWLINE = 0x0a;

function lastByte(fd: number, size: number): number | undefined {
  const byte = Buffer.alloc(1);
  readSync(fd, byte, 0, 1, size - 1);
  return byte[0];
}
