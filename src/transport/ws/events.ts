import type { WebSocket } from 'ws';
import type { EventSlice } from '../../runtime/contract.ts';
import type { Outflow } from '../../runtime/send/unsent-bytes.ts';

/**
 * Sends the events, one a message, as fast as the client takes them.
 *
 * 1. Nothing is asked for before what was sent has gone out: a slow client holds a place in the log and one page, which is counted.
 * 2. A client that takes something is there, even when its answers to our pings stand behind what it has not read yet.
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
