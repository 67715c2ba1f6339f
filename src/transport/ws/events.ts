import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { EventSlice } from '../../contract/contract.ts';
import type { Frames } from '../stream/event-forms.ts';
import { type Outflow, PIECE_BYTES } from '../stream/unsent-bytes.ts';

/**
 * Sends events, one a message, as fast as the client reads.
 *
 * 1. All clients of a page are sent the same bytes. So messages go to the connection as whole
 *    frames, past the library, and many of them in one write.
 * 2. The next page is read when the last one is sent. A slow client costs one page, which is
 *    counted.
 * 3. Reading counts as a heartbeat: a slow client's pongs may be stuck behind unread data.
 */
export async function sendEvents(
  client: WebSocket,
  connection: Duplex,
  slices: AsyncIterable<EventSlice<Frames>>,
  outflow: Outflow,
  heard: () => void,
): Promise<void> {
  for await (const { page, events } of slices) {
    if (client.readyState !== client.OPEN) return;
    const { body } = page;
    outflow.hold(body);
    for (const frames of body.parts(events, PIECE_BYTES)) {
      await outflow.turn(frames.reduce((bytes, { length }) => bytes + length, 0));
      if (client.readyState !== client.OPEN) return;
      await write(connection, frames);
      heard();
    }
    outflow.release(body);
  }
}

/** Resolves when the system has taken them, or the connection closed. */
function write(connection: Duplex, frames: readonly Buffer[]): Promise<void> {
  return new Promise((resolve) => {
    const last = frames.length - 1;
    if (last > 0) connection.cork();
    for (const [index, frame] of frames.entries())
      connection.write(frame, index === last ? () => resolve() : undefined);
    if (last > 0) connection.uncork();
  });
}
