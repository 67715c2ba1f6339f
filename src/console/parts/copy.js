// @ts-check
import { COPIED_MS } from '../bounds.js';
import { byId, el, say } from './dom.js';

/**
 * A button that copies a text.
 * @param {() => string} textOf
 * @param {string} label
 */
export function copyButton(textOf, label) {
  const button = el(
    'button',
    {
      type: 'button',
      class: 'quiet',
      'aria-label': label,
      click: () => void copy(button, textOf()),
    },
    'Copy',
  );
  return button;
}

/**
 * Browsers have no clipboard at addresses that are not secure.
 * @param {HTMLElement} button
 * @param {string} text
 */
export async function copy(button, text) {
  const before = button.dataset.label ?? button.textContent ?? '';
  button.dataset.label = before;
  const done = await navigator.clipboard?.writeText(text).then(
    () => true,
    () => false,
  );
  const result = done === true ? 'Copied' : 'Not allowed';
  say(button, result);
  say(byId('announce'), result);
  setTimeout(() => say(button, before), COPIED_MS);
}
