// @ts-check
import { DATA_CHARACTERS, EVENT_ROWS, EVENTS_KEPT } from '../bounds.js';
import { clock } from '../parts/clock.js';
import { byId, el, say } from '../parts/dom.js';
import { addressOf } from '../state/address.js';
import { markChanged, on } from '../state/model.js';
import { log } from '../state/present.js';
import { at, travelTo } from '../state/travel.js';

/**
 * The event log, latest first. A row opens to the event's data, and its number leads to its
 * position.
 */
export function mountEvents() {
  for (const id of ['events-stream', 'events-type'])
    byId(id).addEventListener('input', () => markChanged('events'));
  on(['events'], draw);
}

/** @param {string} id */
function matcherOf(id) {
  const value = /** @type {HTMLInputElement} */ (byId(id)).value.trim().toLowerCase();
  /** @param {string} name */
  return (name) => name.toLowerCase().includes(value.replaceAll('*', ''));
}

function draw() {
  const [isStream, isType] = [matcherOf('events-stream'), matcherOf('events-type')];
  const all = log.upTo(at());
  /** @type {typeof all} */
  const shown = [];
  let found = 0;
  for (let index = all.length - 1; index >= 0; index -= 1) {
    const event = all[index];
    if (event === undefined || !isStream(event.stream) || !isType(event.type)) continue;
    found += 1;
    if (shown.length < EVENT_ROWS) shown.push(event);
  }
  place(shown);
  const reach = all.length >= EVENTS_KEPT ? `the latest ${all.length}` : `${all.length}`;
  say(
    byId('events-note'),
    `${found === all.length ? '' : `${found} of `}${reach} ${all.length === 1 ? 'event' : 'events'}${found > shown.length ? `, ${shown.length} shown` : ''}`,
  );
}

/**
 * Existing rows stay, and keep the focus.
 * @param {readonly import('../state/model.js').LogEvent[]} shown
 */
function place(shown) {
  const table = /** @type {HTMLTableElement} */ (byId('events-table'));
  /** @type {Map<string, Element>} */
  const there = new Map([...table.tBodies].map((node) => [node.dataset.seq ?? '', node]));
  const now = at();
  /** @type {Element | null} */
  let next = table.tBodies[0] ?? null;
  for (const event of shown) {
    const group = there.get(String(event.seq)) ?? rows(event);
    there.delete(String(event.seq));
    group.classList.toggle('current', event.seq === now);
    if (group === next) next = next.nextElementSibling;
    else table.insertBefore(group, next);
  }
  for (const node of there.values()) node.remove();
}

/** @param {import('../state/model.js').LogEvent} event */
function rows(event) {
  const { seq, stream, type } = event;
  const toggle = el(
    'button',
    { type: 'button', class: 'row', 'aria-expanded': 'false', click: () => flip() },
    type,
  );
  const seqButton = el(
    'button',
    {
      type: 'button',
      class: 'seq',
      title: 'Go to this moment',
      click: () => void travelTo(seq, { now: true }),
    },
    String(seq),
  );
  const source = stream.startsWith('run_')
    ? runLink(stream)
    : stream.replace(/:boot_\w+(:\d+)?$/, '');
  const row = el(
    'tr',
    {},
    el('td', {}, seqButton),
    el('td', { class: 'num', title: event.at }, clock(event.at)),
    el('td', {}, toggle),
    el('td', { title: stream }, source),
  );
  const group = el('tbody', { 'data-seq': seq }, row);
  const flip = () => {
    const isOpen = toggle.getAttribute('aria-expanded') !== 'true';
    toggle.setAttribute('aria-expanded', String(isOpen));
    group.querySelector('.data')?.remove();
    if (isOpen)
      group.append(
        el(
          'tr',
          { class: 'data' },
          el('td', { colspan: 4 }, el('pre', { tabindex: 0 }, textOf(event))),
        ),
      );
  };
  return group;
}

/** @param {string} run */
function runLink(run) {
  return el(
    'a',
    { href: addressOf('run', run), title: `Show the run ${run}` },
    `run …${run.slice(-8)}`,
  );
}

/** @param {import('../state/model.js').LogEvent} event */
function textOf({ stream, version, at: time, boot_id, data }) {
  const text = JSON.stringify({ stream, version, at: time, boot_id, data }, null, 2);
  return text.length <= DATA_CHARACTERS
    ? text
    : `${text.slice(0, DATA_CHARACTERS)}\n… and ${text.length - DATA_CHARACTERS} characters`;
}
