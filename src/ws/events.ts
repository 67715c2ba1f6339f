import { setImmediate as nextTurn } from 'node:timers/promises';
import type { WebSocket } from 'ws';
import type { EventSlice } from '../runtime/runtime.ts';
import type { Outflow } from '../runtime/unsent-bytes.ts';

/**
 * Sends the events, one a message, as fast as the client takes them.
 *
 * 1. Nothing is asked for before what was sent has gone out: a slow client holds a place in the log and one page, which is counted.
 * 2. A client that takes something is there, even when its answers to our pings stand behind what it has not read yet.
 */
export async function sendEvents(socket: WebSocket, slices: AsyncIterable<EventSlice>, outflow: Outflow, heard: () => void): Promise<void> {
  for await (const { page, events } of slices) {
    if (socket.readyState !== socket.OPEN) return;
    outflow.hold(page);
    await new Promise<void>((resolve) => {
      const last = events.at(-1);
      for (const event of events) socket.send(page.json(event), AS_TEXT, event === last ? () => resolve() : heard);
    });
    heard();
    outflow.release(page);
    // What the system takes at once ends in the same turn: others get theirs between large pages.
    if (page.size >= LARGE_BYTES) await nextTurn();
  }
}

const LARGE_BYTES = 64 * 1024;

const AS_TEXT = { binary: false };
