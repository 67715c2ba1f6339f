import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { partsOf } from './parts.ts';

/** A piece needs about a millisecond, so that other work can run between two pieces. */
const PIECE_BYTES = 256 * 1024;

/**
 * Hashes a model, in hexadecimal: its parts one after the other. Calls `report` after each piece.
 */
export async function sha256Of(
  path: string,
  signal?: AbortSignal,
  report?: (bytes: number) => Promise<void>,
): Promise<string> {
  const hash = createHash('sha256');
  let bytes = 0;
  for (const part of partsOf(path))
    for await (const piece of createReadStream(part, { highWaterMark: PIECE_BYTES, signal })) {
      hash.update(piece as Buffer);
      bytes += (piece as Buffer).length;
      await report?.(bytes);
    }
  return hash.digest('hex');
}
