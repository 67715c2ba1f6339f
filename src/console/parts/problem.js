// @ts-check
import { el } from './dom.js';

/**
 * The problem of a run that the page shows: an error, or an incomplete answer.
 * @typedef {{ code: string, message: string, hint?: string | null }} Problem
 */

/** Codes that are not errors: an action of the user, or a part that the answer lacks. */
const MILD = new Set([
  'length',
  'repetition',
  'content_filter',
  'not_json',
  'wrong_form',
  'no_text',
]);
const USUAL = new Set(['run_cancelled']);

/**
 * Shows what happened, what to do, and its code.
 * @param {HTMLElement} box
 * @param {Problem | null} error
 */
export function drawProblem(box, error) {
  const key = JSON.stringify(error);
  box.hidden = error === null;
  if (box.dataset.shown === key) return;
  box.dataset.shown = key;
  if (error === null) return box.replaceChildren();
  box.classList.toggle('mild', MILD.has(error.code));
  box.classList.toggle('usual', USUAL.has(error.code));
  box.replaceChildren(
    el('p', {}, el('b', {}, error.message)),
    error.hint ? el('p', {}, error.hint) : '',
    el('p', { class: 'faint' }, el('code', {}, error.code)),
  );
}

/**
 * The problem of a finished run. An incomplete answer is never shown as a whole one.
 * @param {import('../state/model.js').Run} run
 * @returns {Problem | null}
 */
export function problemOf({
  error,
  state,
  finish_reason,
  form_problem,
  output,
  output_parts = [],
}) {
  if (error !== null || state !== 'completed') return error;
  if (finish_reason === 'length')
    return {
      code: 'length',
      message: 'The answer is cut: it is as long as it may be.',
      hint: 'Ask it to continue, or allow more tokens.',
    };
  if (finish_reason === 'repetition')
    return {
      code: 'repetition',
      message: 'The model repeats itself without end, so the answer was ended.',
      hint: 'Ask in other words, or ask another model.',
    };
  if (finish_reason === 'content_filter')
    return {
      code: 'content_filter',
      message: 'A filter of the provider cut the answer.',
      hint: 'Ask in other words, or ask another model.',
    };
  if (finish_reason === 'not_json')
    return {
      code: 'not_json',
      message: 'The answer should be JSON, and is not.',
      hint: 'Ask again, or ask another model.',
    };
  if (finish_reason === 'wrong_form')
    return {
      code: 'wrong_form',
      message: `The answer does not fit the form that was asked for. ${form_problem ?? ''}`.trim(),
      hint: 'Ask again, or ask another model.',
    };
  if (output.trim() !== '' || output_parts.some(({ type }) => type !== 'reasoning')) return null;
  return { code: 'no_text', message: 'The model ended without any text.', hint: 'Ask again.' };
}
