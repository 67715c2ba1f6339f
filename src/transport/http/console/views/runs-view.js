// @ts-check

import { PROMPT_CHARACTERS, REFRESH_MS, RUNS_MORE, RUNS_SHOWN } from '../bounds.js';
import { ask } from '../daemon/api.js';
import { moment, since } from '../parts/clock.js';
import { byId, chip, el, place, say, setOptions } from '../parts/dom.js';
import { addressOf } from '../state/address.js';
import { changed, model, on } from '../state/model.js';
import { onEvent } from '../state/present.js';
import { machineOf } from '../state/shape.js';

/** The list of runs: the history in the present, and the snapshot's runs in the past. */
export function mountRuns() {
  filter().addEventListener('change', () => void read());
  byId('runs-find').addEventListener('input', () => {
    limit = RUNS_MORE;
    void read();
  });
  byId('runs-more').addEventListener('click', () => {
    limit = RUNS_MORE;
    void read();
  });
  onEvent(({ type }, moved) => {
    if (moved && type.startsWith('run.')) soon();
  });
  on(['machines', 'connection'], () => {
    setOptions(filter(), [
      { value: '', text: 'every state' },
      ...states().map((state) => ({ value: state, text: state })),
    ]);
    if (model.connected) void read();
  });
  on(['runs', 'run'], draw);
}

let limit = RUNS_SHOWN;
let due = false;

function filter() {
  return /** @type {HTMLSelectElement} */ (byId('runs-state'));
}

function states() {
  return (machineOf('run')?.states ?? [])
    .filter(({ path }) => !path.includes('.'))
    .map(({ path }) => path);
}

function soon() {
  if (due) return;
  due = true;
  setTimeout(() => {
    due = false;
    void read();
  }, REFRESH_MS);
}

async function read() {
  const { value } = filter();
  const page = await ask(
    `/v1/runs?texts=short&limit=${limit}${value === '' ? '' : `&state=${value}`}`,
  ).catch(() => null);
  if (page === null) return;
  model.runs = page.runs;
  byId('runs-more').dataset.more = String(page.next !== null && limit < RUNS_MORE);
  changed('runs');
}

function draw() {
  const { value } = filter();
  const past = model.past;
  const all =
    past === null ? model.runs : past.runs.filter(({ state }) => value === '' || state === value);
  const wanted = /** @type {HTMLInputElement} */ (byId('runs-find')).value.trim().toLowerCase();
  const runs = all.filter((run) => wanted === '' || textOf(run).includes(wanted));
  place(byId('runs-rows'), runs.map(row), 'run');
  byId('runs-more').hidden = past !== null || byId('runs-more').dataset.more !== 'true';
  say(byId('runs-note'), note(runs.length, all.length, value));
}

/**
 * @param {number} shown
 * @param {number} all
 * @param {string} state
 */
function note(shown, all, state) {
  if (shown < all) return `${shown} of the latest ${all}.`;
  if (all === 0 && state !== '') return `No run is ${state}.`;
  if (all === 0) return model.past === null ? 'No run yet.' : 'No run was in hand then.';
  return model.past === null ? '' : 'In hand then, or ended in the minute before.';
}

/** What the search looks at. @param {import('../state/model.js').Run} run */
function textOf({ id, prompt, output, provider, model: name, client }) {
  return `${id} ${prompt} ${output} ${provider}/${name} ${client}`.toLowerCase();
}

/** @param {import('../state/model.js').Run} run */
function row(run) {
  const { usage } = run;
  return el(
    'tr',
    { 'data-run': run.id },
    el('td', {}, chip('run', run.state)),
    el(
      'td',
      { class: 'text' },
      el('a', { href: addressOf('run', run.id) }, run.prompt.slice(0, PROMPT_CHARACTERS) || run.id),
    ),
    el('td', { class: 'faint' }, `${run.provider}/${run.model}`),
    el('td', { class: 'num', title: run.created_at }, moment(run.created_at).replace(/\.\d+$/, '')),
    el('td', { class: 'num' }, run.ended_at === null ? '' : since(run.created_at, run.ended_at)),
    el('td', { class: 'num' }, usage.output_tokens === null ? '' : String(usage.output_tokens)),
  );
}
