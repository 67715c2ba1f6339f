// @ts-check

import { RETRY_FIRST_MS, RETRY_MAX_MS } from '../bounds.js';
import { ApiError, ask } from './api.js';
import { proveDaemon } from './proof.js';

/**
 * Follows a WebSocket until the signal aborts. A lost connection is opened again after a wait that
 * doubles up to a bound. The wait ends when the page comes back into view. `path` is called each
 * time, so that the stream can resume.
 * @param {{
 *   path: () => string,
 *   onMessage: (message: any) => void,
 *   onOpen?: () => void | Promise<void>,
 *   onLost?: (error: ApiError | null) => void,
 *   signal: AbortSignal,
 * }} options
 */
export async function follow({ path, onMessage, onOpen = () => {}, onLost = () => {}, signal }) {
  for (let failures = 0; !signal.aborted; ) {
    let lost = null;
    try {
      await onOpen();
      await read(
        path(),
        (message) => {
          failures = 0;
          onMessage(message);
        },
        signal,
      );
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      lost = error;
    }
    if (signal.aborted) return;
    onLost(lost);
    await pause(
      Math.min(RETRY_MAX_MS, RETRY_FIRST_MS * 2 ** failures) * (0.75 + Math.random() / 2),
      signal,
    );
    failures = Math.min(failures + 1, 10);
    // A refused upgrade has no reason. A request shows whether the session is still valid: a
    // sign-out aborts the signal.
    if (!signal.aborted) await ask('/v1/session').catch(() => {});
  }
}

/**
 * The first messages of a socket that does not follow.
 * @param {string} path
 * @param {number} count
 * @returns {Promise<any[]>}
 */
export async function take(path, count) {
  /** @type {any[]} */
  const messages = [];
  const enough = new AbortController();
  await read(
    path,
    (message) => {
      if (messages.length < count) messages.push(message);
      if (messages.length >= count) enough.abort();
    },
    enough.signal,
  );
  return messages;
}

/**
 * Reads a socket to its end, after the daemon has proved itself. Throws ApiError.
 * @param {string} path
 * @param {(message: any) => void} onMessage
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
async function read(path, onMessage, signal) {
  await proveDaemon();
  if (signal.aborted) return;
  await new Promise((resolve) => {
    const socket = new WebSocket(new URL(path, location.href.replace(/^http/, 'ws')));
    const leave = () => socket.close();
    signal.addEventListener('abort', leave);
    socket.addEventListener('message', ({ data }) => {
      if (!signal.aborted) onMessage(JSON.parse(data));
    });
    socket.addEventListener('close', () => {
      signal.removeEventListener('abort', leave);
      resolve(null);
    });
    if (signal.aborted) leave();
  });
}

/**
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      for (const [target, name] of wakers) target.removeEventListener(name, done);
      resolve();
    };
    /** @type {[EventTarget, string][]} */
    const wakers = [
      [signal, 'abort'],
      [window, 'online'],
      [document, 'visibilitychange'],
    ];
    const timer = setTimeout(done, ms);
    for (const [target, name] of wakers) target.addEventListener(name, done);
  });
}
