// @ts-check

import { REFRESH_MS, RETRY_MAX_MS } from '../bounds.js';
import { ApiError, ask } from '../daemon/api.js';
import { markChanged, model, on } from './model.js';
import { log, onEvent } from './present.js';
import { at } from './travel.js';
import { settle } from './walk.js';

/**
 * The chosen run. It is read once, and then follows its events. Any event but output reads it
 * again. So does, after a while, a request without an answer, or with an answer that says to try
 * again. The answer to a request about a run that is no longer chosen shows nothing.
 *
 * @typedef {import('./model.js').LogEvent} LogEvent
 */

/** @type {string | null} */
let chosen = null;
let reading = new AbortController();
let due = false;

/** Why nothing is shown; null when the run is shown. @type {{ reason: string | null }} */
export const missing = { reason: null };

/** @param {string | null} id null: no run is shown */
export async function chooseRun(id) {
  if (id !== chosen) show(null, null, null);
  chosen = id;
  await read();
}

/**
 * Shows a run that was just started, before its first event arrives.
 * @param {import('./model.js').Run} run
 */
export function adoptRun(run) {
  reading.abort();
  chosen = run.id;
  show(run, null, null);
}

export function chosenId() {
  return chosen;
}

export function followChosen() {
  onEvent((event, moved) => {
    if (event.stream !== chosen || at() !== null) return;
    apply(event);
    if (moved) soon();
  });
  on(['connection'], () => void (model.connected && read()));
  on(['run', 'snapshot'], () => {
    const wanted = at();
    if (chosen !== null && wanted !== shownAt) void read();
  });
}

/** Statuses of a daemon that is busy, or whose disk does not answer. */
const TRY_AGAIN = new Set([429, 503]);

/** @type {number | null} */
let shownAt = null;
/** The first event of the chosen run. @type {{ id: string, seq: number } | null} */
let born = null;

async function read() {
  reading.abort();
  if (chosen === null) return;
  const id = chosen;
  reading = new AbortController();
  const { signal } = reading;
  const moment = at();
  shownAt = moment;
  if (moment !== null && born?.id === id && moment < born.seq)
    return show(null, null, `The run ${id} did not exist at this moment.`);
  try {
    const [run, why] = await Promise.all([
      ask(`/v1/runs/${id}${moment === null ? '' : `?at=${moment}`}`, { signal }),
      ask(`/v1/runs/${id}/why`, { signal }).catch(() => (model.run?.id === id ? model.why : null)),
    ]);
    if (signal.aborted) return;
    if (why?.complete) born = { id, seq: why.events[0]?.seq ?? 0 };
    show(run, why, null);
    if (moment === null) for (const event of log.kept) if (event.stream === id) apply(event);
  } catch (error) {
    if (signal.aborted || !(error instanceof ApiError)) return;
    const isAgain = error.status === null || TRY_AGAIN.has(error.status);
    if (isAgain) setTimeout(() => signal.aborted || void read(), RETRY_MAX_MS);
    if (error.status === null) return;
    show(null, null, error.message);
  }
  if (model.past === null && model.now !== null) settle(model.now, id);
}

/**
 * @param {import('./model.js').Run | null} run
 * @param {import('./model.js').Why | null} why
 * @param {string | null} reason
 */
function show(run, why, reason) {
  missing.reason = reason;
  model.run = run;
  model.why = why;
  markChanged('run');
  markChanged('output');
}

/** @param {LogEvent} event */
function apply(event) {
  const { run } = model;
  if (run === null || run.id !== event.stream || event.seq <= run.seq) return;
  run.seq = event.seq;
  if (event.type === 'run.output_appended')
    if (event.data.kind === undefined) run.output += String(event.data.text);
    else soon();
  if (event.type === 'run.started' && event.data.resumes !== true) run.output = '';
  markChanged('output');
}

function soon() {
  if (due) return;
  due = true;
  setTimeout(() => {
    due = false;
    if (at() === null) void read();
  }, REFRESH_MS);
}
