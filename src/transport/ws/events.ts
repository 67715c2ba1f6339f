import type { WebSocket } from 'ws';
import type { EventSlice } from '../../runtime/contract.ts';
import type { Outflow } from '../../runtime/send/unsent-bytes.ts';

/**
 * Sends events, one a message, as fast as the client reads.
 *
 * 1. The next page is read when the last one is sent. A slow client costs one page, which is
 *    counted.
 * 2. Reading counts as a heartbeat: a slow client's pongs may be stuck behind unread data.
 */
export async function sendEvents(
  socket: WebSocket,
  slices: AsyncIterable<EventSlice>,
  outflow: Outflow,
  heard: () => void,
): Promise<void> {
  for await (const { page, events } of slices) {
    if (socket.readyState !== socket.OPEN) return;
    outflow.hold(page);
    const last = events.at(-1);
    for (const event of events) {
      const message = page.json(event);
      await outflow.turn(message.length);
      if (socket.readyState !== socket.OPEN) return;
      if (event !== last) socket.send(message, AS_TEXT, heard);
      else await new Promise<void>((resolve) => socket.send(message, AS_TEXT, () => resolve()));
    }
    heard();
    outflow.release(page);
  }
}

const AS_TEXT = { binary: false };
