import type { Socket } from 'node:net';
import { StringDecoder } from 'node:string_decoder';
import type { Outflow, SharedBytes } from '../stream/unsent-bytes.ts';

/**
 * Splits bytes into lines of UTF-8. The function takes a chunk. It returns false for good once a
 * line exceeds the bound, and keeps nothing more.
 */
export function createLineSplitter(
  maxBytes: number,
  onLine: (line: string) => void,
): (chunk: Buffer) => boolean {
  const decoder = new StringDecoder('utf8');
  let parts: string[] = [];
  let bytes = 0;
  let isBroken = false;
  return (chunk) => {
    if (isBroken) return false;
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0 && !isBroken; end = chunk.indexOf(10, start)) {
      isBroken = bytes + end - start > maxBytes;
      if (isBroken) break;
      const line = parts.join('') + decoder.write(chunk.subarray(start, end));
      parts = [];
      bytes = 0;
      start = end + 1;
      if (line !== '') onLine(line);
    }
    if (!isBroken && start < chunk.length) {
      parts.push(decoder.write(chunk.subarray(start)));
      bytes += chunk.length - start;
      isBroken = bytes > maxBytes;
    }
    if (isBroken) parts = [];
    return !isBroken;
  };
}

export interface Connection {
  socket: Socket;
  outflow: Outflow;
  /** Unsent bytes of answers, without pages of events. */
  unsent: number;
}

/**
 * Sends whole lines without a copy of shared bytes. Resolves when the system has taken them, or the
 * connection closed.
 */
export async function writeLines(
  { socket, outflow }: Connection,
  shared: SharedBytes,
  lines: (string | Uint8Array)[][],
): Promise<void> {
  outflow.hold(shared);
  await outflow.turn(lines.flat().reduce((size, part) => size + part.length, 0));
  if (socket.destroyed || socket.writableEnded) return;
  await new Promise<void>((resolve) => {
    socket.cork();
    const last = lines.at(-1);
    for (const line of lines) {
      for (const part of line.slice(0, -1)) socket.write(part);
      if (!socket.write(line.at(-1) ?? '', () => line === last && resolve())) socket.pause();
    }
    socket.uncork();
  });
  outflow.release(shared);
}

/** Waits until the client has read enough. */
export function writable(socket: Socket, signal: AbortSignal): Promise<void> | undefined {
  if (!socket.writableNeedDrain || socket.destroyed || signal.aborted) return undefined;
  return new Promise((resolve) => {
    const done = () => {
      socket.off('drain', done);
      socket.off('close', done);
      signal.removeEventListener('abort', done);
      resolve();
    };
    socket.once('drain', done);
    socket.once('close', done);
    signal.addEventListener('abort', done);
  });
}
