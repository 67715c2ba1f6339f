// @ts-check

import { EVENTS_ASKED, EVENTS_KEPT, REFRESH_MS } from '../bounds.js';
import { ApiError, ask } from '../daemon/api.js';
import { follow, take } from '../daemon/socket.js';
import { markChanged, model } from './model.js';
import { chosenStream, forget, settle, walk } from './walk.js';

/**
 * The present: its snapshot, and the events that change it, in order, also over a restart of the
 * daemon.
 *
 * 1. Events move the machines in order. A snapshot that is ahead of them waits until they arrive.
 */

/**
 * The events of the page.
 *
 * 1. `kept` has no gaps and no repeats: an event that does not follow the last one is dropped.
 * 2. An older position has its own window of events, which ends with it.
 *
 * @typedef {import('./model.js').LogEvent} LogEvent
 */
class EventLog {
  constructor() {
    /** @type {LogEvent[]} */
    this.kept = [];
    /** @type {LogEvent[]} */
    this.window = [];
  }

  /** Position of the last event; 0 without any. */
  get last() {
    return this.kept.at(-1)?.seq ?? 0;
  }

  /**
   * Adds an event. Returns true if it is new.
   * @param {LogEvent} event
   */
  add(event) {
    if (this.kept.length > 0 && event.seq <= this.last) return false;
    this.kept.push(event);
    if (this.kept.length > EVENTS_KEPT * 1.1) this.kept.splice(0, this.kept.length - EVENTS_KEPT);
    return true;
  }

  clear() {
    this.kept = [];
    this.window = [];
  }

  /**
   * The events up to a position, oldest first.
   * @param {number | null} at null: the present
   */
  upTo(at) {
    if (at === null) return this.kept;
    const events = this.isKept(at) ? this.kept : this.window;
    return events.filter(({ seq }) => seq <= at);
  }

  /**
   * Reads the window of a position, if it needs one.
   * @param {number} at
   */
  async open(at) {
    if (this.isKept(at) || this.window.at(-1)?.seq === at) return;
    const from = Math.max(1, at - EVENTS_ASKED + 1);
    const events = await take(`/v1/events?from=${from}`, at - from + 1);
    this.window = events.filter(({ seq }) => seq <= at);
  }

  /** @param {number} at */
  isKept(at) {
    return this.kept.length > 0 && at >= (this.kept[0]?.seq ?? 0);
  }
}

export const log = new EventLog();

/** @typedef {(event: import('./model.js').LogEvent, moved: boolean) => void} Hearer */
/** @type {Set<Hearer>} */
const hearers = new Set();

/**
 * Calls the listener for each event, once, in order. `moved`: the event may be more than output.
 * @param {Hearer} hearer
 */
export function onEvent(hearer) {
  hearers.add(hearer);
}

/**
 * Continues until the signal aborts.
 * @param {AbortSignal} signal
 */
export function followPresent(signal) {
  return follow({
    path: () =>
      `/v1/events?follow=1&from=${log.last > 0 ? log.last + 1 : Math.max(1, (model.now?.last_seq ?? 0) - EVENTS_ASKED + 1)}`,
    onOpen: async () => {
      if (model.machines.length === 0)
        model.machines = (await ask('/v1/machines', { signal })).machines;
      markChanged('machines');
      const { last_seq } = await read(signal);
      // No events arrive now, so the snapshot cannot be older than they are.
      if (last_seq < log.last) begin(last_seq);
      opened = last_seq;
      model.connected = true;
      model.seen_at = Date.now();
      markChanged('connection');
    },
    onMessage: (event) => {
      if (log.add(event)) hear(event);
    },
    onLost: (error) => {
      model.connected = false;
      model.lost = error === null ? '' : lostWords(error);
      markChanged('connection');
    },
    signal,
  });
}

/** @param {ApiError} error */
function lostWords({ code, message }) {
  if (code === 'unreachable') return 'To start it, run in a terminal: svc start';
  return code === 'unproven' ? message : '';
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
  markChanged('events');
}

/** @param {AbortSignal} [signal] */
async function read(signal) {
  /** @type {import('./model.js').Snapshot} */
  const snapshot = await ask('/v1/runtime/state', signal === undefined ? {} : { signal });
  // A daemon that starts has no log yet.
  if (snapshot.first_seq === 0) throw new ApiError(503, {});
  model.now = snapshot;
  model.last_seq = Math.max(model.last_seq, snapshot.last_seq);
  if (snapshot.seq <= Math.max(opened, log.last)) place(snapshot);
  else ahead = snapshot;
  markChanged('snapshot');
  return snapshot;
}

/** @param {import('./model.js').Snapshot} snapshot */
function place(snapshot) {
  ahead = null;
  if (model.past === null) settle(snapshot, chosenStream());
}

/** The log is another one: nothing of the old log is valid. @param {number} last_seq */
function begin(last_seq) {
  log.clear();
  forget();
  model.last_seq = last_seq;
  model.past = null;
  model.run = null;
  model.why = null;
  markChanged('run');
}

/** The end of the log when it was last opened. Events before it are history. */
let opened = 0;
/** @type {import('./model.js').Snapshot | null} */
let ahead = null;
let due = false;
let asking = false;

/** Reads the snapshot again soon, at most once a frame. */
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
    // The socket notices a daemon that is gone.
    await read().catch(() => {});
    asking = false;
  }, REFRESH_MS);
}
