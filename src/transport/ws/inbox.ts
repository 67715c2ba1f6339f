import type { RawData, WebSocket } from 'ws';
import { onAbort } from '../on-abort.ts';

/**
 * The messages of a client, one at a time. While one waits, the connection is not read. So at most
 * the rest of one read waits with it. Ends when a signal aborts.
 */
export function messagesOf(
  client: WebSocket,
  signals: readonly AbortSignal[],
): AsyncIterable<Buffer> {
  const waiting: Buffer[] = [];
  let isBusy = false;
  let wake = () => {};
  client.on('message', (data: RawData) => {
    waiting.push(Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer));
    if (isBusy) client.pause();
    wake();
  });
  for (const signal of signals) onAbort(signal, () => wake());
  return (async function* () {
    while (!signals.some(({ aborted }) => aborted)) {
      const next = waiting.shift();
      if (next === undefined) {
        client.resume();
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      isBusy = true;
      if (waiting.length === 0) client.resume();
      yield next;
      isBusy = false;
    }
  })();
}
