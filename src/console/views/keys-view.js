// @ts-check
import { byId, el } from '../parts/dom.js';
import { go, place } from '../state/address.js';
import { model } from '../state/model.js';
import { goLive, stepBy } from '../state/travel.js';

/** Single-key commands. They can be turned off, and do nothing while the user types. */
const KEYS = {
  n: { does: 'write a prompt', act: () => visit('chat', 'ask-prompt') },
  r: { does: 'go to the runs', act: () => visit('runs', 'runs-find') },
  a: { does: 'go to the approvals', act: () => visit('approvals', 'approvals-h') },
  o: { does: 'go to the overview', act: () => go('overview') },
  p: { does: 'go to models and providers', act: () => visit('models', 'models-find') },
  m: { does: 'go to the machines', act: () => go('machines') },
  e: { does: 'filter the events', act: () => visit('log', 'events-type') },
  g: { does: 'go to the log', act: () => visit('log', 'logs-lines') },
  s: { does: 'find a setting', act: () => visit('settings', 'settings-find') },
  '[': { does: 'one event back', act: () => stepBy(-1) },
  ']': { does: 'one event forth', act: () => stepBy(1) },
  l: { does: 'live: back to the present', act: goLive },
  '1 … 5': { does: 'show a machine', act: () => {} },
  Escape: { does: 'leave a field, so that the keys count again', act: () => {} },
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
    if (event.key === 'Escape' && isTyping(event.target))
      /** @type {HTMLElement} */ (event.target).blur();
    if (
      !box.checked ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      isTyping(event.target) ||
      document.querySelector('dialog[open]') !== null ||
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

/**
 * Opens a page and focuses its field. The page is shown when its address changes.
 * @param {import('../state/address.js').Page} page
 * @param {string} id
 */
function visit(page, id) {
  if (place().page === page) return byId(id).focus();
  window.addEventListener('hashchange', () => byId(id).focus(), { once: true });
  go(page);
}

/** @param {number} index */
function showMachine(index) {
  const machine = model.machines[index];
  if (machine !== undefined) go('machines', machine.name);
}
