// @ts-check
import { LOOK_MS, LOOK_TIMEOUT_MS } from '../bounds.js';
import { ask } from '../daemon/api.js';
import { markChanged, model } from './model.js';

/**
 * Looks at the daemon again and again while the page is visible. A stopped daemon keeps its
 * connections open, so only a question without an answer shows that it is gone.
 *
 * 1. A look ends with an answer, or after `LOOK_TIMEOUT_MS`. The next one begins `LOOK_MS` later.
 * 2. A look changes `connected` only if it is true, or a look without an answer has cleared it.
 * 3. Listeners get only reports that came in time.
 *
 * @typedef {import('../../contract/contract.ts').ReportRecord} Report
 */

/** @type {Set<(report: Report) => void>} */
const listeners = new Set();

/** @param {(report: Report) => void} listener */
export function onLook(listener) {
  listeners.add(listener);
}

/**
 * Continues until the signal aborts.
 * @param {AbortSignal} signal
 */
export async function lookAround(signal) {
  while (!signal.aborted) {
    if (!document.hidden) await look(signal);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

/** @param {AbortSignal} signal */
async function look(signal) {
  if (model.connected) isStalled = false;
  const isOpen = model.connected || isStalled;
  const bound = new Promise((resolve) => setTimeout(resolve, LOOK_TIMEOUT_MS, null));
  const asking = ask('/v1/runtime/health', { signal }).catch(() => null);
  /** @type {Report | null} */
  const report = await Promise.race([asking, bound]);
  // The socket notices a daemon that is dead, and connects again.
  if (signal.aborted || !isOpen) return;
  isStalled = report === null;
  if (report !== null) model.seen_at = Date.now();
  if (model.connected === isStalled) {
    model.connected = !isStalled;
    markChanged('connection');
  }
  if (report !== null) for (const listener of listeners) listener(report);
}

/** The sockets are open, and the daemon does not answer. */
let isStalled = false;
