// @ts-check

import { TRAVEL_MS } from '../bounds.js';
import { ApiError, ask } from '../daemon/api.js';
import { markChanged, model, snapshot } from './model.js';
import { log } from './present.js';
import { chosenStream, forget, settle, walk } from './walk.js';

/** Shows a past position of the log, or the present. The last request wins. */

let journey = new AbortController();
/** @type {number | null} */
let target = null;

/** The position that is being read; null without one. */
export function heading() {
  return target;
}

/** The position that is shown; null in the present. */
export function at() {
  return model.past?.seq ?? null;
}

/**
 * @param {number} seq
 * @param {{ now?: boolean }} [options] `now`: does not wait for the slider to rest
 */
export async function travelTo(seq, { now = false } = {}) {
  renew();
  target = Math.min(Math.max(seq, model.now?.first_seq ?? 1), model.last_seq);
  const wanted = target;
  const { signal } = journey;
  if (!now) await new Promise((resolve) => setTimeout(resolve, TRAVEL_MS));
  if (signal.aborted) return;
  try {
    const [then] = await Promise.all([
      ask(`/v1/runtime/state?at=${wanted}`, { signal }),
      log.open(wanted),
    ]);
    if (!signal.aborted) show(then);
  } catch (error) {
    // Retention may remove the position meanwhile, or the daemon may be gone. The shown snapshot
    // stays.
    if (!(error instanceof ApiError)) throw error;
    if (!signal.aborted) target = null;
    markChanged('snapshot');
  }
}

/** Moves one event on, or back. @param {number} by */
export function stepBy(by) {
  const next = (heading() ?? at() ?? model.last_seq) + by;
  if (at() !== null && next > model.last_seq) goLive();
  else void travelTo(next, { now: true });
}

export function goLive() {
  renew();
  // The slider may be drawn already.
  if (model.past === null) return markChanged('snapshot');
  model.past = null;
  forget();
  if (model.now !== null) settle(model.now, chosenStream());
  tell();
}

function renew() {
  journey.abort();
  target = null;
  journey = new AbortController();
}

/** @param {import('./model.js').Snapshot} then */
function show(then) {
  target = null;
  const before = snapshot();
  forget();
  // The step to this position is lit when the page comes from the one before.
  if (before !== null && before.seq === then.seq - 1) settle(before, null);
  model.past = then;
  const event = log.upTo(then.seq).at(-1);
  if (event?.seq === then.seq) walk(event);
  settle(then, chosenStream());
  tell();
}

function tell() {
  markChanged('snapshot');
  markChanged('events');
  markChanged('runs');
  markChanged('run');
}
