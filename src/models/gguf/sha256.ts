import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { partsOf } from './parts.ts';

/** A piece needs about a millisecond, so that other work can run between two pieces. */
const PIECE_BYTES = 256 * 1024;

/** The hash of some files one after the other, and that of each, in hexadecimal. */
export interface Hashes {
  whole: string;
  each: string[];
}

/** Hashes a model with all its parts. */
export async function sha256Of(path: string, signal?: AbortSignal): Promise<string> {
  return (await hashFiles(partsOf(path), signal)).whole;
}

/** Calls `report` after each piece, with the bytes of all files until then. */
export async function hashFiles(
  files: readonly string[],
  signal?: AbortSignal,
  report?: (bytes: number) => Promise<void>,
): Promise<Hashes> {
  const whole = createHash('sha256');
  const each: string[] = [];
  let bytes = 0;
  for (const file of files) {
    const alone = files.length === 1 ? null : createHash('sha256');
    for await (const piece of createReadStream(file, { highWaterMark: PIECE_BYTES, signal })) {
      whole.update(piece as Buffer);
      alone?.update(piece as Buffer);
      bytes += (piece as Buffer).length;
      await report?.(bytes);
    }
    if (alone !== null) each.push(alone.digest('hex'));
  }
  const hash = whole.digest('hex');
  return { whole: hash, each: files.length === 1 ? [hash] : each };
}
