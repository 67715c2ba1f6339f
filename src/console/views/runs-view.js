// @ts-check

import { PROMPT_CHARACTERS, REFRESH_MS, RUNS_MORE, RUNS_SHOWN } from '../bounds.js';
import { ask } from '../daemon/api.js';
import { batchCalls, inTurn } from '../parts/act.js';
import { answererOf } from '../parts/answerer.js';
import { formatTime, since } from '../parts/clock.js';
import { byId, chip, el, place, say, setOptions } from '../parts/dom.js';
import { addressOf } from '../state/address.js';
import { markChanged, model, on } from '../state/model.js';
import { onEvent } from '../state/present.js';
import { machineOf } from '../state/shape.js';

/** The list of runs: the history in the present, and the snapshot's runs in the past. */
export function mountRuns() {
  filter().addEventListener('change', () => void read());
  words().addEventListener('input', () => {
    clearTimeout(typed);
    typed = setTimeout(() => void find(), REFRESH_MS);
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

/**
 * What the search found; null without words.
 * @type {import('../../contract/contract.ts').SearchPage['runs'] | null}
 */
let found = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let typed;
let limit = RUNS_SHOWN;

function filter() {
  return /** @type {HTMLSelectElement} */ (byId('runs-state'));
}

function words() {
  return /** @type {HTMLInputElement} */ (byId('runs-find'));
}

/** The last words win. */
async function find() {
  const wanted = words().value.trim();
  const query = `words=${encodeURIComponent(wanted)}&limit=${RUNS_SHOWN}`;
  const page = wanted === '' ? null : await ask(`/v1/runs/search?${query}`).catch(showFailure);
  if (words().value.trim() !== wanted) return;
  found = page?.runs ?? null;
  markChanged('runs');
}

/** @param {Error} error */
function showFailure(error) {
  say(byId('announce'), error.message);
  return { runs: [] };
}

function states() {
  return (machineOf('run')?.states ?? [])
    .filter(({ path }) => !path.includes('.'))
    .map(({ path }) => path);
}

const read = inTurn(async () => {
  const { value } = filter();
  const page = await ask(
    `/v1/runs?texts=short&limit=${limit}${value === '' ? '' : `&state=${value}`}`,
  ).catch(() => null);
  if (page === null) return;
  model.runs = page.runs;
  byId('runs-more').dataset.more = String(page.next !== null && limit < RUNS_MORE);
  markChanged('runs');
});
const soon = batchCalls(read);

function draw() {
  const { value } = filter();
  const isShown = (/** @type {{ state: string }} */ { state }) => value === '' || state === value;
  const hits = model.past === null ? (found?.filter(isShown) ?? null) : null;
  const runs = (model.past === null ? model.runs : model.past.runs).filter(isShown);
  place(byId('runs-rows'), hits === null ? runs.map(row) : hits.map(hit), 'run');
  byId('runs-more').hidden =
    hits !== null || model.past !== null || byId('runs-more').dataset.more !== 'true';
  say(byId('runs-note'), hits === null ? note(runs.length, value) : foundNote(hits.length));
}

/** @param {number} count */
function foundNote(count) {
  return count === 0 ? 'No finished run has these words.' : `The latest ${count} with these words.`;
}

/**
 * @param {number} count
 * @param {string} state
 */
function note(count, state) {
  if (count === 0 && state !== '') return `No run is ${state}.`;
  if (count === 0) return model.past === null ? 'No run yet.' : 'No run was in hand then.';
  return model.past === null ? '' : 'In hand then, or ended in the minute before.';
}

/** A run that the search found, with the words in their place. */
function hit(/** @type {NonNullable<typeof found>[number]} */ one) {
  let end = 0;
  const pieces = one.matches.flatMap(([from, to]) => {
    const before = one.snippet.slice(end, from);
    end = to;
    return [before, el('mark', {}, one.snippet.slice(from, to))];
  });
  return el(
    'tr',
    { 'data-run': one.id },
    el('td', {}, chip('run', one.state)),
    el(
      'td',
      { class: 'text' },
      el('a', { href: addressOf('run', one.id) }, ...pieces, one.snippet.slice(end)),
    ),
    el('td', { class: 'faint' }, answererOf(one)),
    el('td', { class: 'num' }, formatTime(one.created_at, { to: 'second' })),
    el('td', {}),
    el('td', {}),
  );
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
    el('td', { class: 'faint' }, answererOf(run)),
    el('td', { class: 'num', title: run.created_at }, formatTime(run.created_at, { to: 'second' })),
    el('td', { class: 'num' }, run.ended_at === null ? '' : since(run.created_at, run.ended_at)),
    el('td', { class: 'num' }, usage.output_tokens === null ? '' : String(usage.output_tokens)),
  );
}
