// @ts-check
import { byId, say } from './dom.js';

/**
 * Asks before something is removed. Resolves with the answer.
 * @param {string} question
 * @param {string} yes
 * @returns {Promise<boolean>}
 */
export function confirmed(question, yes) {
  const dialog = /** @type {HTMLDialogElement} */ (byId('confirm'));
  say(byId('confirm-text'), question);
  say(byId('confirm-yes'), yes);
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}
