import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';

/** In pieces, so that the process does other work between them: one takes about a millisecond. */
const PIECE_BYTES = 256 * 1024;

/** The hash of a file as it is on disk, in hexadecimal. `tell` hears how far it came. */
export async function sha256Of(
  path: string,
  signal: AbortSignal,
  tell: (bytes: number) => Promise<void>,
): Promise<string> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const piece of createReadStream(path, { highWaterMark: PIECE_BYTES, signal })) {
    hash.update(piece as Buffer);
    bytes += (piece as Buffer).length;
    await tell(bytes);
  }
  return hash.digest('hex');
}
