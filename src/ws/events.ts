import type { WebSocket } from 'ws';
import type { EventRecord } from '../runtime/runtime.ts';

/**
 * Sends the events, one a message, as fast as the client takes them.
 *
 * 1. Nothing is asked for before what was sent has gone out, but for a small buffer: a slow client holds a place in the log and nothing else.
 * 2. A client that takes something is there, even when its answers to our pings stand behind what it has not read yet.
 */
export async function sendEvents(socket: WebSocket, events: AsyncIterable<EventRecord>, heard: () => void): Promise<void> {
  for await (const event of events) {
    if (socket.readyState !== socket.OPEN) return;
    const text = JSON.stringify(event);
    if (socket.bufferedAmount + text.length <= UNSENT_BYTES) socket.send(text);
    else {
      await new Promise<void>((resolve) => socket.send(text, () => resolve()));
      heard();
    }
  }
}

const UNSENT_BYTES = 64 * 1024;
