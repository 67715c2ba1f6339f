// @ts-check
import { ApiError, askLines } from '../daemon/api.js';
import { act } from '../parts/act.js';
import { formatDuration } from '../parts/clock.js';
import { askConfirmation } from '../parts/confirm.js';
import { byId, say } from '../parts/dom.js';
import { formatBytes } from '../parts/figures.js';
import { markChanged } from '../state/model.js';
import { wordsOf } from '../state/tone.js';

/**
 * Downloads a model. The download ends when the page leaves; its part is kept.
 *
 * 1. `own` belongs to the present download, and is null without one. A page has one at a time.
 * 2. `begun` is where the present attempt began. Fewer bytes than that are another attempt.
 * 3. However a download ends, the list of models is read again.
 */
export function mountPull() {
  const form = /** @type {HTMLFormElement} */ (byId('pull'));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (own === null) void act(byId('pull-start'), 'pull-said', () => start());
  });
  byId('pull-stop').addEventListener('click', () => own?.abort());
}

/** @type {AbortController | null} */
let own = null;
/**
 * When the present attempt began, to know its rate.
 * @type {{ at: number, bytes: number } | null}
 */
let begun = null;

/** @typedef {import('../../runtime/pulls/record.ts').PullRecord} PullRecord */

/** A model that does not fit the memory is downloaded only if the user wants it anyway. */
async function start(anyway = false) {
  const field = /** @type {HTMLInputElement} */ (byId('pull-reference'));
  const reference = field.value.trim();
  if (reference === '') return;
  own = new AbortController();
  begun = null;
  let refusal = '';
  byId('pull-stop').hidden = false;
  byId('pull-progress').hidden = false;
  say(byId('pull-text'), 'It looks for the file.');
  try {
    const body = { reference, anyway };
    const { signal } = own;
    await askLines('/v1/models/pull', { body, signal, onLine: (record) => show(record) });
    field.value = '';
  } catch (error) {
    byId('pull-progress').hidden = true;
    if (error instanceof ApiError && error.code === 'model_too_large') refusal = error.message;
    else if (!own.signal.aborted) throw error;
    const stopped = 'The download was stopped. Its part is kept, so it continues from there.';
    say(byId('pull-said'), refusal || stopped);
  } finally {
    own = null;
    byId('pull-stop').hidden = true;
    markChanged('models');
  }
  if (refusal !== '' && (await askConfirmation(refusal, 'Download it anyway', 'Cancel')))
    await start(true);
}

/** @param {PullRecord} record */
function show(record) {
  const { state, size_bytes, bytes, error, file } = record;
  const bar = /** @type {HTMLProgressElement} */ (byId('pull-bar'));
  if (size_bytes === null) bar.removeAttribute('value');
  else bar.value = size_bytes === 0 ? 1 : bytes / size_bytes;
  const parts = [
    file ?? record.reference,
    state === 'downloading' ? progressOf(record) : wordsOf('pull', state),
    state === 'backoff' ? (error?.message ?? '') : '',
    state === 'downloading' ? (record.fit?.text ?? '') : '',
  ];
  say(byId('pull-text'), parts.filter((part) => part !== '').join(' · '));
}

/** @param {PullRecord} record */
function progressOf({ bytes, size_bytes }) {
  const now = performance.now();
  if (begun === null || bytes < begun.bytes) begun = { at: now, bytes };
  const rate = (bytes - begun.bytes) / Math.max(1, now - begun.at);
  const done =
    size_bytes === null
      ? formatBytes(bytes)
      : `${formatBytes(bytes)} of ${formatBytes(size_bytes)}`;
  if (rate <= 0) return done;
  const left = size_bytes === null ? '' : `, ${formatDuration((size_bytes - bytes) / rate)} left`;
  return `${done}, ${formatBytes(rate * 1000)}/s${left}`;
}
