// @ts-check

import { LONG_MS, MODELS_SHOWN } from '../bounds.js';
import { ask } from '../daemon/api.js';
import { actionButton, batchCalls, inTurn } from '../parts/act.js';
import { shownName } from '../parts/answerer.js';
import { askConfirmation } from '../parts/confirm.js';
import { byId, chip, el, place as placeRows, say } from '../parts/dom.js';
import { formatBytes } from '../parts/figures.js';
import { onPlace, place } from '../state/address.js';
import { markChanged, model, on } from '../state/model.js';
import { onEvent } from '../state/present.js';

/**
 * The models of all providers. Local ones can be loaded, unloaded and removed.
 *
 * @typedef {import('../../contract/contract.ts').LoadedModelRecord} Loaded
 * @typedef {{ id: string, name: string, provider: string, state: string, problem?: string | null,
 * size_bytes: number | null, quantization: string | null, context_length: number | null, built_in:
 * boolean, default: boolean, source?: string, alias_of?: string,
 * fit?: { text: string } }} Model
 */

/** @type {Model[]} */
let models = [];
/** @type {Map<string, Loaded>} */
let loaded = new Map();
let memory = '';

export function mountModels() {
  byId('models-find').addEventListener('input', draw);
  on(['models', 'connection'], soon);
  onPlace(soon);
  onEvent(({ type }, moved) => {
    if (moved && /^(engine|provider|pull)\./.test(type)) soon();
  });
}

function soon() {
  if (model.connected && place().page === 'models') readSoon();
}
const read = inTurn(async () => {
  const [list, inMemory] = await Promise.all([
    ask('/v1/models').catch(() => null),
    ask('/v1/models/loaded').catch(() => null),
  ]);
  if (list !== null) models = list.data;
  if (inMemory !== null) {
    loaded = new Map(inMemory.models.map((/** @type {Loaded} */ one) => [one.id, one]));
    memory = `${formatBytes(inMemory.reserved_bytes)} of ${formatBytes(inMemory.budget_bytes)} reserved for models in memory.`;
  }
  draw();
});
const readSoon = batchCalls(read);

function draw() {
  const wanted = /** @type {HTMLInputElement} */ (byId('models-find')).value.trim().toLowerCase();
  const found = models.filter(({ id }) => id.toLowerCase().includes(wanted));
  const order = (/** @type {Model} */ one) => (one.provider === 'local' ? 0 : 1);
  const shown = found.toSorted((a, b) => order(a) - order(b)).slice(0, MODELS_SHOWN);
  placeRows(byId('models-rows'), shown.map(row), 'model');
  const count = shown.length < models.length ? `${shown.length} of ${models.length} models. ` : '';
  say(byId('models-note'), models.length === 0 ? 'No provider has a model yet.' : count + memory);
}

/** @param {Model} one */
function row(one) {
  const here = loaded.get(one.id);
  const state = here?.state ?? one.state;
  const progress = here?.progress ?? null;
  return el(
    'tr',
    { 'data-model': one.id },
    el('th', { scope: 'row' }, shownName(one.id), one.default ? el('small', {}, ' default') : null),
    el(
      'td',
      {},
      state === undefined ? null : chip('model', state),
      progress === null ? null : el('small', { class: 'num' }, ` ${Math.round(progress * 100)} %`),
    ),
    el('td', { class: 'num' }, one.size_bytes == null ? '' : formatBytes(one.size_bytes)),
    el('td', { class: 'num' }, one.context_length == null ? '' : String(one.context_length)),
    el('td', { class: 'text faint' }, factsOf(one, here)),
    el('td', { class: 'actions' }, ...actions(one, here)),
  );
}

/**
 * @param {Model} one
 * @param {Loaded | undefined} here
 */
function factsOf(one, here) {
  return [
    one.alias_of === undefined ? null : `means ${one.alias_of}`,
    one.quantization ?? null,
    one.source ?? null,
    one.built_in ? 'built in' : null,
    here?.memory_bytes == null ? null : `${formatBytes(here.memory_bytes)} of memory`,
    here?.gpu == null || here.gpu === 'cpu' ? null : `${here.gpu_layers} layers on ${here.gpu}`,
    here === undefined ? (one.fit?.text ?? null) : (here.warning ?? null),
    here?.error ?? one.problem ?? null,
  ]
    .filter((fact) => fact !== null)
    .join(' · ');
}

/**
 * @param {Model} one
 * @param {Loaded | undefined} here
 */
function actions(one, here) {
  if (one.provider !== 'local' || one.alias_of !== undefined) return [];
  const post = (/** @type {string} */ what) => async () => {
    const asking = ask(`/v1/models/${what}`, {
      method: 'POST',
      body: { model: what === 'remove' ? one.id : one.name },
      within_ms: LONG_MS,
    });
    soon();
    await asking.finally(() => markChanged('models'));
  };
  const remove = async () => {
    if (!(await askConfirmation(`Delete the file of ${shownName(one.id)}?`, 'Delete it'))) return;
    await post('remove')();
    say(byId('announce'), `${shownName(one.id)} was removed.`);
  };
  const isThere = here !== undefined && here.state !== 'failed';
  return [
    isThere
      ? actionButton('Unload', `Unload ${shownName(one.id)}`, 'models-said', post('unload'))
      : actionButton('Load', `Load ${shownName(one.id)}`, 'models-said', post('load')),
    one.built_in || (one.source !== undefined && one.source !== 'svc')
      ? null
      : actionButton('Remove', `Remove ${shownName(one.id)}`, 'models-said', remove, { bad: true }),
  ];
}
