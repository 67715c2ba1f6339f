// @ts-check
import { ApiError, ask } from './api.js';
import { EVENTS_ASKED, REFRESH_MS } from './bounds.js';
import { EventLog } from './event-log.js';
import { changed, model } from './model.js';
import { follow } from './socket.js';
import { chosenStream, forget, settle, walk } from './walk.js';

/**
 * The present: its picture, and the events that change it, one after the other, also over a restart of the daemon.
 *
 * 1. Machines move by the events, in their order: a picture that is ahead of them waits until they have come.
 */

export const log = new EventLog();

/** @typedef {(event: import('./model.js').LogEvent, moved: boolean) => void} Hearer */
/** @type {Set<Hearer>} */
const hearers = new Set();

/**
 * Calls for each event, once, in their order; `moved`: it may be more than one more piece of an answer.
 * @param {Hearer} hearer
 */
export function onEvent(hearer) {
  hearers.add(hearer);
}

/**
 * Goes on until the signal aborts.
 * @param {AbortSignal} signal
 */
export function followPresent(signal) {
  return follow({
    path: () =>
      `/v1/events?follow=1&from=${log.last > 0 ? log.last + 1 : Math.max(1, (model.now?.last_seq ?? 0) - EVENTS_ASKED + 1)}`,
    onOpen: async () => {
      if (model.machines.length === 0)
        model.machines = (await ask('/v1/machines', { signal })).machines;
      changed('machines');
      const { last_seq } = await read(signal);
      // No events come now, so that it cannot be older than they are.
      if (last_seq < log.last) begin(last_seq);
      opened = last_seq;
      model.connected = true;
      changed('connection');
    },
    onMessage: (event) => {
      if (log.add(event)) hear(event);
    },
    onLost: (error) => {
      model.connected = false;
      model.lost = error?.code === 'unproven' ? error.message : '';
      changed('connection');
    },
    signal,
  });
}

/** @param {import('./model.js').LogEvent} event */
function hear(event) {
  model.last_seq = Math.max(model.last_seq, event.seq);
  const isNew = event.seq > opened;
  const moves = isNew && model.past === null && walk(event);
  const moved = isNew && (moves || event.type !== 'run.output_appended');
  if (moved && event.seq > (model.now?.seq ?? 0)) refresh();
  if (ahead !== null && event.seq >= ahead.seq) place(ahead);
  for (const hearer of hearers) hearer(event, moved);
  changed('events');
}

/** @param {AbortSignal} [signal] */
async function read(signal) {
  /** @type {import('./model.js').Picture} */
  const picture = await ask('/v1/runtime/state', signal === undefined ? {} : { signal });
  // While it starts there is no log yet, and nothing to be said of the one that we know.
  if (picture.first_seq === 0) throw new ApiError(503, {});
  model.now = picture;
  model.last_seq = Math.max(model.last_seq, picture.last_seq);
  if (picture.seq <= Math.max(opened, log.last)) place(picture);
  else ahead = picture;
  changed('picture');
  return picture;
}

/** @param {import('./model.js').Picture} picture */
function place(picture) {
  ahead = null;
  if (model.past === null) settle(picture, chosenStream());
}

/** The log is another one: nothing of the old one is true. @param {number} last_seq */
function begin(last_seq) {
  log.clear();
  forget();
  model.last_seq = last_seq;
  model.past = null;
  model.run = null;
  model.why = null;
  changed('run');
}

/** The end of the log when it was last opened: what came before is history. */
let opened = 0;
/** @type {import('./model.js').Picture | null} */
let ahead = null;
let due = false;
let asking = false;

/** Reads the picture again, soon, and not more often than it can be drawn. */
export function refresh() {
  if (due) return;
  due = true;
  setTimeout(async () => {
    if (asking) {
      due = false;
      return refresh();
    }
    due = false;
    asking = true;
    // A daemon that is gone is found by the socket.
    await read().catch(() => {});
    asking = false;
  }, REFRESH_MS);
}
