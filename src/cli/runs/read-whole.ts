import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { SvcError } from '../../errors.ts';

/** Reads a file as text. Throws export_invalid for special, large or binary files, and usage. */
export function readWhole(name: string, bytes_max: number): string {
  let fd: number;
  try {
    fd = openSync(name, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  } catch (error) {
    throw new SvcError(
      'usage',
      `The file ${JSON.stringify(name)} cannot be read (${(error as NodeJS.ErrnoException).code}).`,
      { cause: error, hint: 'Give the id of a run, or a file that svc runs export wrote.' },
    );
  }
  try {
    return decode(readBytes(fd, name, bytes_max), name);
  } finally {
    closeSync(fd);
  }
}

function readBytes(fd: number, name: string, bytes_max: number): Buffer {
  const info = fstatSync(fd);
  if (!info.isFile()) throw new SvcError('export_invalid', `${name} is not a file.`);
  if (info.size > bytes_max)
    throw new SvcError(
      'export_invalid',
      `${name} has ${info.size} bytes; at most ${bytes_max} are read.`,
    );
  const bytes = Buffer.alloc(info.size);
  let read = 0;
  while (read < bytes.length) {
    const count = readSync(fd, bytes, read, bytes.length - read, null);
    if (count === 0) break;
    read += count;
  }
  return bytes.subarray(0, read);
}

function decode(bytes: Buffer, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new SvcError('export_invalid', `${name} is not UTF-8 text.`);
  }
}
