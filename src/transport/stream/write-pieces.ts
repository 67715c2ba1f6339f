import type { ServerResponse } from 'node:http';
import type { Outflow } from './unsent-bytes.ts';
import { PIECE_BYTES } from './unsent-bytes.ts';

/**
 * Writes bytes of any length, one piece a turn. Resolves when the system has taken them. A closed
 * connection drops its writes, and ends the wait.
 */
export function pieceWriter(
  res: ServerResponse,
  outflow: Outflow,
): (bytes: Uint8Array) => Promise<void> {
  let wake = () => {};
  res.once('close', () => wake());
  return async (bytes) => {
    for (let start = 0; start < bytes.length; start += PIECE_BYTES) {
      const piece = bytes.subarray(start, start + PIECE_BYTES);
      await outflow.turn(piece.length);
      if (res.destroyed) return;
      await new Promise<void>((resolve) => {
        wake = resolve;
        res.write(piece, () => resolve());
      });
    }
  };
}
