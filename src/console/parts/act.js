// @ts-check
import { REFRESH_MS } from '../bounds.js';
import { ApiError } from '../daemon/api.js';
import { byId, el, say } from './dom.js';

/**
 * A button whose work takes a while. While it works it is marked, and a second click does nothing.
 * An error is shown in the element `said`.
 * @param {string} text
 * @param {string} label
 * @param {string} place
 * @param {() => Promise<unknown>} work
 * @param {{ bad?: boolean, disabled?: boolean }} [options]
 */
export function actionButton(text, label, place, work, { bad = false, disabled = false } = {}) {
  const button = el(
    'button',
    {
      type: 'button',
      class: `small ${bad ? 'bad' : ''}`,
      'aria-label': label,
      'aria-disabled': disabled ? 'true' : null,
      click: () => {
        if (button.getAttribute('aria-disabled') !== 'true') void act(button, place, work);
      },
    },
    text,
  );
  return button;
}

/**
 * @param {HTMLElement} button
 * @param {string} place
 * @param {() => Promise<unknown>} work
 */
export async function act(button, place, work) {
  button.setAttribute('aria-disabled', 'true');
  button.setAttribute('aria-busy', 'true');
  say(byId(place), '');
  try {
    await work();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    say(byId(place), error.message);
  }
  button.removeAttribute('aria-disabled');
  button.removeAttribute('aria-busy');
}

/**
 * Does the work one at a time, so that no older answer comes after a newer one. All calls while it
 * works share the next time.
 * @template T
 * @param {() => Promise<T>} work
 */
export function inTurn(work) {
  /** @type {Promise<T> | null} */
  let running = null;
  /** @type {Promise<T> | null} */
  let next = null;
  const begin = () => {
    running = work().finally(() => {
      running = null;
    });
    return running;
  };
  const after = () => {
    next = null;
    return running ?? begin();
  };
  return () => {
    if (running === null) return begin();
    next ??= running.then(after, after);
    return next;
  };
}

/**
 * Does the work a moment later, once for all calls until then.
 * @param {() => unknown} work
 */
export function batchCalls(work) {
  let due = false;
  return () => {
    if (due) return;
    due = true;
    setTimeout(() => {
      due = false;
      void work();
    }, REFRESH_MS);
  };
}
