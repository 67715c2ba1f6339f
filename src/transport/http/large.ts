import { RecordBytes } from '../../runtime/runs/record-bytes.ts';
import { jsonPieces, textLength } from '../stream/json-pieces.ts';
import { pieceWriter } from '../stream/write-pieces.ts';
import { jsonHeaders, sendJson } from './reply.ts';
import type { Context } from './route.ts';

/**
 * Sends an answer that may have large texts of runs. Its bytes count until the client has read
 * them. No turn of the event loop makes or writes a large piece. Throws busy when clients leave too
 * much unread.
 */
export async function sendLarge(
  { res, unsent }: Pick<Context, 'res' | 'unsent'>,
  make: () => Promise<unknown>,
): Promise<void> {
  const outflow = unsent.enter(() => res.destroy());
  try {
    const made = await unsent.makeWhole(async () => {
      if (res.destroyed) return null;
      const value = await make();
      if (value instanceof RecordBytes) outflow.hold(value);
      else outflow.setOwnBytes(textLength(value));
      return { value };
    });
    if (made === null || res.destroyed) return;
    const { value } = made;
    if (!(value instanceof RecordBytes) && textLength(value) < SMALL_LENGTH)
      return sendJson(res, 200, value);
    const write = pieceWriter(res, outflow);
    if (value instanceof RecordBytes) {
      res.writeHead(200, { ...jsonHeaders(), 'Content-Length': value.size + 1 });
      await write(value.bytes);
    } else {
      res.writeHead(200, jsonHeaders());
      for (const piece of jsonPieces(value)) await write(Buffer.from(piece));
    }
    res.end('\n');
  } finally {
    outflow.leave();
  }
}

/** Shorter answers are made in one step. The bounds of their connections suffice. */
const SMALL_LENGTH = 64 * 1024;
