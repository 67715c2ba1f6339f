// @ts-check
import { byId, el } from './dom.js';
import { showMachine } from './machines-view.js';
import { goLive, stepBy } from './travel.js';

/** Single-key commands. They can be turned off, and do nothing while the user types. */
const KEYS = {
  n: { does: 'write a prompt', act: () => byId('ask-prompt').focus() },
  r: { does: 'go to the runs', act: () => focusFirst('runs') },
  m: { does: 'go to the machines', act: () => focusFirst('machine-tabs') },
  e: { does: 'filter the events', act: () => byId('events-type').focus() },
  g: { does: 'go to the log', act: () => byId('logs-lines').focus() },
  '[': { does: 'one event back', act: () => stepBy(-1) },
  ']': { does: 'one event forth', act: () => stepBy(1) },
  l: { does: 'live: back to the present', act: goLive },
  '1 … 5': { does: 'show a machine', act: () => {} },
  '?': { does: 'show these keys', act: () => dialog().showModal() },
};

const OFF = 'svc-keys-off';

export function mountKeys() {
  byId('keys-list').replaceChildren(
    ...Object.entries(KEYS).map(([key, { does }]) =>
      el('div', {}, el('dt', {}, el('kbd', {}, key)), el('dd', {}, does)),
    ),
  );
  byId('help').addEventListener('click', () => dialog().showModal());
  const box = /** @type {HTMLInputElement} */ (byId('keys-on'));
  box.checked = localStorage.getItem(OFF) === null;
  box.addEventListener('change', () =>
    box.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, '1'),
  );
  document.addEventListener('keydown', (event) => {
    if (
      !box.checked ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      isTyping(event.target) ||
      dialog().open ||
      document.body.classList.contains('signed-out')
    )
      return;
    if (/^[1-9]$/.test(event.key)) showMachine(Number(event.key) - 1);
    else if (event.key in KEYS) KEYS[/** @type {keyof typeof KEYS} */ (event.key)].act();
    else return;
    event.preventDefault();
  });
}

const dialog = () => /** @type {HTMLDialogElement} */ (byId('keys'));

/** @param {EventTarget | null} target */
function isTyping(target) {
  return (
    target instanceof HTMLTextAreaElement ||
    target instanceof HTMLSelectElement ||
    (target instanceof HTMLInputElement && !['range', 'checkbox'].includes(target.type))
  );
}

/** @param {string} id */
function focusFirst(id) {
  const found = byId(id).querySelector('button, select, input');
  if (found instanceof HTMLElement) found.focus();
}
