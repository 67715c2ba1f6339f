import type { WebSocket } from 'ws';
import type { Outflow } from '../stream/unsent-bytes.ts';

/** One message each. Resolves when the system has taken all; false when the client is gone. */
export async function sendAll(
  socket: WebSocket,
  texts: readonly string[],
  outflow: Outflow,
): Promise<boolean> {
  outflow.setOwnBytes(texts.reduce((bytes, { length }) => bytes + length, 0));
  for (const [index, text] of texts.entries()) {
    if (socket.readyState !== socket.OPEN) return false;
    const last = index === texts.length - 1;
    if (last || socket.bufferedAmount > UNSENT_BYTES)
      await new Promise<void>((resolve) => socket.send(text, () => resolve()));
    else socket.send(text);
  }
  outflow.setOwnBytes(0);
  return true;
}

const UNSENT_BYTES = 64 * 1024;
