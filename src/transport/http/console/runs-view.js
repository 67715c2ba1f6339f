// @ts-check
import { ask } from './api.js';
import { PROMPT_CHARACTERS, REFRESH_MS, RUNS_MORE, RUNS_SHOWN } from './bounds.js';
import { chooseRun, chosenId } from './chosen-run.js';
import { moment, since } from './clock.js';
import { byId, chip, el, place, say, setOptions } from './dom.js';
import { changed, model, on } from './model.js';
import { onEvent } from './present.js';
import { machineOf, paintOf } from './shape.js';

/** The list of runs: the history in the present, and the snapshot's runs in the past. */
export function mountRuns() {
  filter().addEventListener('change', () => void read());
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
  const runs =
    past === null ? model.runs : past.runs.filter(({ state }) => value === '' || state === value);
  place(byId('runs-rows'), runs.map(row), 'run');
  byId('runs-more').hidden = past !== null || byId('runs-more').dataset.more !== 'true';
  const none = past === null ? 'No run yet.' : 'No run was in hand then.';
  say(
    byId('runs-note'),
    runs.length === 0
      ? value === ''
        ? none
        : `No run is ${value}.`
      : past === null
        ? ''
        : 'In hand then, or ended in the minute before.',
  );
}

/** @param {import('./model.js').Run} run */
function row(run) {
  const isChosen = run.id === chosenId();
  const prompt = run.prompt.slice(0, PROMPT_CHARACTERS);
  const choose = async () => {
    await chooseRun(run.id);
    changed('runs');
    if (window.matchMedia('(max-width: 60rem)').matches) byId('run').scrollIntoView();
  };
  return el(
    'tr',
    { class: isChosen ? 'current' : '', 'data-run': run.id },
    el('td', {}, chip(run.state, paintOf('run', run.state))),
    el(
      'td',
      {},
      el(
        'button',
        {
          type: 'button',
          class: 'row',
          'aria-current': isChosen ? 'true' : null,
          click: () => void choose(),
        },
        prompt,
      ),
    ),
    el('td', { class: 'num', title: run.created_at }, moment(run.created_at).replace(/\.\d+$/, '')),
    el('td', { class: 'num' }, run.ended_at === null ? '' : since(run.created_at, run.ended_at)),
  );
}
