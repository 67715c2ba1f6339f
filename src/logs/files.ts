import { closeSync, fstatSync, openSync, read, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** The log files: `svc.log` is the current one, `svc.1.log` the previous one, and so on. */
export function logFile(folder: string, index: number): string {
  return join(folder, index === 0 ? 'svc.log' : `svc.${index}.log`);
}

/** Numbers of the existing log files, newest first. */
export function logIndexes(folder: string): number[] {
  const found: number[] = [];
  for (const name of namesIn(folder)) {
    const match = /^svc(?:\.([1-9]\d{0,5}))?\.log$/.exec(name);
    if (match !== null) found.push(Number(match[1] ?? 0));
  }
  return found.sort((a, b) => a - b);
}

/** A log file as it was when it was opened. Later lines, renames and removals change nothing. */
export interface LogSource {
  size: number;
  /** Bytes of the file; fewer if it is shorter now. */
  read(position: number, length: number): Promise<Buffer>;
  close(): void;
}

/**
 * Opens all log files at once, newest first, so that a rotation neither hides nor repeats a line.
 */
export function openLogs(folder: string): LogSource[] {
  const sources: LogSource[] = [];
  const seen = new Set<string>();
  for (const index of logIndexes(folder)) {
    const fd = tryOpen(logFile(folder, index));
    if (fd === null) continue;
    const { dev, ino, size } = fstatSync(fd);
    const identity = `${dev}:${ino}`;
    if (seen.has(identity)) closeSync(fd);
    else sources.push(source(fd, size));
    seen.add(identity);
  }
  return sources;
}

function source(fd: number, size: number): LogSource {
  return {
    size,
    read: (position, length) =>
      new Promise((resolve, reject) => {
        read(fd, Buffer.allocUnsafe(length), 0, length, position, (error, bytes, buffer) =>
          error === null ? resolve(buffer.subarray(0, bytes)) : reject(error),
        );
      }),
    close: () => closeSync(fd),
  };
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** A rotation may rename the file after it was listed. */
function tryOpen(file: string): number | null {
  try {
    return openSync(file, 'r');
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}
