// @ts-check
import { LINE_CHARACTERS, LOG_LINES } from '../bounds.js';
import { follow } from '../daemon/socket.js';
import { clock } from '../parts/clock.js';
import { byId, el, say } from '../parts/dom.js';
import { onPlace } from '../state/address.js';
import { model, on } from '../state/model.js';

/**
 * The daemon's log, latest last. After a lost connection, its end is read again.
 *
 * 1. `follows`: the box shows its end, and keeps showing it. Only the user changes that, by
 *    scrolling. A hidden box forgets where it was.
 */
export function mountLogs() {
  const box = byId('logs-lines');
  box.addEventListener('scroll', () => {
    if (box.clientHeight > 0)
      follows = box.scrollHeight - box.scrollTop - box.clientHeight < END_PIXELS;
  });
  onPlace(({ page }) => page === 'log' && requestAnimationFrame(toEnd));
  on(['snapshot'], () => {
    byId('logs-past').hidden = model.past === null;
  });
  level().addEventListener('change', () => restart());
  byId('logs-pause').addEventListener('click', () => {
    const button = byId('logs-pause');
    button.setAttribute('aria-pressed', String(button.getAttribute('aria-pressed') !== 'true'));
  });
}

/** Nearer to the end than one line. */
const END_PIXELS = 24;
let follows = true;

function toEnd() {
  const box = byId('logs-lines');
  if (follows) box.scrollTop = box.scrollHeight;
}

const level = () => /** @type {HTMLSelectElement} */ (byId('logs-level'));
let own = new AbortController();
/** @type {AbortSignal | null} */
let outer = null;
/** @type {string[]} */
let waiting = [];
let due = false;

/** @param {AbortSignal} signal */
export function followLogs(signal) {
  outer = signal;
  restart();
}

function restart() {
  own.abort();
  own = new AbortController();
  if (outer === null || outer.aborted) return;
  const signal = AbortSignal.any([own.signal, outer]);
  void follow({
    path: () => `/v1/logs?follow=1&tail=200&level=${level().value}`,
    onOpen: () => {
      // Lines that wait to be drawn belong to the old connection and the old level.
      waiting = [];
      byId('logs-lines').replaceChildren();
    },
    onMessage: (line) => add(line),
    signal,
  });
}

/** @param {any} line */
function add(line) {
  if (waiting.length >= LOG_LINES) waiting.shift();
  waiting.push(line);
  if (due) return;
  due = true;
  setTimeout(draw, 100);
}

function draw() {
  due = false;
  if (byId('logs-pause').getAttribute('aria-pressed') === 'true') {
    due = true;
    setTimeout(draw, 500);
    return say(byId('logs-note'), `${waiting.length} lines wait`);
  }
  say(byId('logs-note'), '');
  const box = byId('logs-lines');
  box.append(...waiting.map(row));
  waiting = [];
  while (box.childElementCount > LOG_LINES) box.firstElementChild?.remove();
  toEnd();
}

/** @param {any} line */
function row({ missed, level: rank, time, msg, boot_id: _, err, ...rest }) {
  if (missed !== undefined)
    return el('li', { class: 'warn' }, `${missed} lines were missed: they came too fast.`);
  // What the sentence says needs no second place.
  const fields = Object.entries(rest).filter(([, value]) => !String(msg).includes(String(value)));
  const more = fields.length === 0 ? '' : JSON.stringify(Object.fromEntries(fields));
  const name = String(rank);
  return el(
    'li',
    { class: name },
    el('time', {}, time === undefined ? '' : clock(time)),
    ' ',
    el('b', {}, name),
    ' ',
    String(msg ?? '').slice(0, LINE_CHARACTERS),
    ' ',
    el('small', {}, more.slice(0, LINE_CHARACTERS)),
    err === undefined ? null : failure(err),
  );
}

/** The sentence of an error. Its stack is for those who open it. @param {any} err */
function failure(err) {
  const sentence = String(err?.message ?? err).slice(0, LINE_CHARACTERS);
  const all = JSON.stringify(err, null, 1).replaceAll('\\n', '\n').slice(0, LINE_CHARACTERS);
  return el('details', {}, el('summary', {}, sentence), el('pre', { tabindex: 0 }, all));
}
