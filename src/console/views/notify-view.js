// @ts-check
import { LONG_RUN_MS } from '../bounds.js';
import { ask } from '../daemon/api.js';
import { since } from '../parts/clock.js';
import { byId, say } from '../parts/dom.js';
import { go } from '../state/address.js';
import { model, on } from '../state/model.js';
import { onEvent } from '../state/present.js';
import { isFinal } from '../state/shape.js';

/**
 * While the page is hidden: a notification of the system when a long run has ended, or a call of a
 * tool waits for the user. The user turns it on: only then the browser asks for permission. It has
 * no text of the run, since others can see the screen. Its tag is the run or the call, so several
 * pages show one.
 */
export function mountNotify() {
  byId('notify-row').hidden = !('Notification' in window);
  if (byId('notify-row').hidden) return;
  const box = /** @type {HTMLInputElement} */ (byId('notify'));
  box.checked = isOn();
  box.addEventListener('change', async () => {
    const isAllowed = box.checked && (await Notification.requestPermission()) === 'granted';
    const isRefused = box.checked && !isAllowed;
    if (isAllowed) localStorage.setItem(ON, '1');
    else localStorage.removeItem(ON);
    box.checked = isOn();
    say(
      byId('notify-said'),
      isRefused ? 'The browser does not allow it: see its settings for this page.' : '',
    );
  });
  onEvent(({ type, stream }, moved) => {
    const [machine = '', path = ''] = type.split('.');
    if (moved && document.hidden && machine === 'run' && isFinal(machine, path) && isOn())
      void notify(stream).catch(() => {});
  });
  on(['approvals'], () => {
    const before = waiting;
    waiting = new Set(model.approvals.map(({ id, state }) => `${id} ${state}`));
    const fresh = model.approvals.findLast(({ id, state }) => !before?.has(`${id} ${state}`));
    if (before !== null && fresh !== undefined && document.hidden && isOn())
      show('A call of a tool waits for you', `${waiting.size} in all`, fresh.id, () =>
        go('approvals', fresh.run),
      );
  });
}

/** The calls that waited before. Null: the page has not asked yet. @type {Set<string> | null} */
let waiting = null;

const ON = 'svc-notify';
const isOn = () => localStorage.getItem(ON) !== null && Notification.permission === 'granted';

/** @param {string} id */
async function notify(id) {
  /** @type {import('../state/model.js').Run} */
  const run = await ask(`/v1/runs/${id}`);
  const { state, created_at, ended_at } = run;
  const end = ended_at ?? undefined;
  const took = Date.parse(end ?? '') - Date.parse(created_at);
  if (!(took >= LONG_RUN_MS)) return;
  const what = `${run.model ?? 'no model'} · ${since(created_at, end)}`;
  show(`A run is ${state.replace('_', ' ')}`, what, id, () => go('runs', id));
}

/**
 * @param {string} title
 * @param {string} body
 * @param {string} tag
 * @param {() => void} open
 */
function show(title, body, tag, open) {
  const shown = new Notification(title, { body, tag, icon: '/console/icon-192.png' });
  shown.onclick = () => {
    window.focus();
    open();
  };
}
