// @ts-check
import { ApiError, ask } from './api.js';
import { TRAVEL_MS } from './bounds.js';
import { changed, model, picture } from './model.js';
import { log } from './present.js';
import { chosenStream, forget, settle, walk } from './walk.js';

/** Going to another moment of the log, and back to the present. The last one that was asked for wins. */

let journey = new AbortController();
/** @type {number | null} */
let target = null;

/** The position that is on its way to be shown; null when there is none. */
export function heading() {
  return target;
}

/** The position that is looked at; null in the present. */
export function at() {
  return model.past?.seq ?? null;
}

/**
 * @param {number} seq
 * @param {{ now?: boolean }} [options] `now`: without waiting for the slider to rest
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
    // What is past may be removed while it is asked for, and the daemon may be gone: the picture that is there stays.
    if (!(error instanceof ApiError)) throw error;
    if (!signal.aborted) target = null;
    changed('picture');
  }
}

/** One event further, or back. @param {number} by */
export function stepBy(by) {
  const next = (heading() ?? at() ?? model.last_seq) + by;
  if (at() !== null && next > model.last_seq) goLive();
  else void travelTo(next, { now: true });
}

export function goLive() {
  renew();
  // The slider may have been drawn already.
  if (model.past === null) return changed('picture');
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

/** @param {import('./model.js').Picture} then */
function show(then) {
  target = null;
  const before = picture();
  forget();
  // The step to this moment is lit where we come from the one before.
  if (before !== null && before.seq === then.seq - 1) settle(before, null);
  model.past = then;
  const event = log.upTo(then.seq).at(-1);
  if (event?.seq === then.seq) walk(event);
  settle(then, chosenStream());
  tell();
}

function tell() {
  changed('picture');
  changed('events');
  changed('runs');
  changed('run');
}
