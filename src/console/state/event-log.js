// @ts-check
import { EVENTS_ASKED, EVENTS_KEPT } from '../bounds.js';
import { take } from '../daemon/socket.js';

/**
 * The events of the page.
 *
 * 1. `kept` has no gaps and no repeats: an event that does not follow the last one is dropped.
 * 2. An older position has its own window of events, which ends with it.
 *
 * @typedef {import('./model.js').LogEvent} LogEvent
 */
export class EventLog {
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
