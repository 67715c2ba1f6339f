// @ts-check
import { el } from './dom.js';

/**
 * Shows an error: what happened, what to do, and its code.
 * @param {HTMLElement} box
 * @param {{ code: string, message: string, hint?: string | null } | null} error
 */
export function drawProblem(box, error) {
  const key = JSON.stringify(error);
  box.hidden = error === null;
  if (box.dataset.shown === key) return;
  box.dataset.shown = key;
  if (error === null) return box.replaceChildren();
  box.replaceChildren(
    el('p', {}, el('b', {}, error.message)),
    error.hint ? el('p', {}, error.hint) : '',
    el('p', { class: 'faint' }, el('code', {}, error.code)),
  );
}
