// @ts-check
import { byId, say } from './dom.js';

/**
 * Asks before something is removed. Resolves with the answer.
 * @param {string} question
 * @param {string} yes
 * @param {string} no
 * @returns {Promise<boolean>}
 */
export function askConfirmation(question, yes, no = 'Keep it') {
  return answerTo(question, yes, no);
}

/**
 * Asks for a text. Resolves with null if the user gives none.
 * @param {string} question
 * @param {string} yes
 * @param {string} text
 * @returns {Promise<string | null>}
 */
export async function askText(question, yes, text) {
  const input = /** @type {HTMLInputElement} */ (byId('confirm-input'));
  input.value = text;
  input.hidden = false;
  // Enter presses the first button of a form, which is the other one here.
  input.onkeydown = (event) => {
    if (event.key !== 'Enter' || event.isComposing) return;
    event.preventDefault();
    byId('confirm-yes').click();
  };
  const isGiven = await answerTo(question, yes, 'Cancel');
  input.hidden = true;
  return isGiven ? input.value : null;
}

/**
 * @param {string} question
 * @param {string} yes
 * @param {string} no
 * @returns {Promise<boolean>}
 */
function answerTo(question, yes, no) {
  const dialog = /** @type {HTMLDialogElement} */ (byId('confirm'));
  say(byId('confirm-text'), question);
  say(byId('confirm-yes'), yes);
  say(byId('confirm-no'), no);
  byId('confirm-yes').classList.toggle('bad', no !== 'Cancel');
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}
