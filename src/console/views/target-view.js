// @ts-check

import { MODELS_SHOWN } from '../bounds.js';
import { ask } from '../daemon/api.js';
import { inTurn } from '../parts/act.js';
import { answererOf } from '../parts/answerer.js';
import { byId, el } from '../parts/dom.js';
import { formatBytes } from '../parts/figures.js';
import { onPlace, place } from '../state/address.js';
import { model, on, snapshot } from '../state/model.js';
import { onPresetModel } from './fields-view.js';

/**
 * Which model answers next: one list of the models of all providers. A name that is not in it can
 * be typed.
 *
 * 1. The first entry says who answers when the user names no model: the default, or who answered
 *    before in this conversation.
 * 2. A choice counts for the page it was made on. One for a new chat stays for the next new chat.
 * 3. `models` is the last list that the daemon sent. A failed request changes nothing.
 *
 * @typedef {{ id: string, name: string, provider?: string, state?: string, default?: boolean,
 * size_bytes?: number | null, quantization?: string | null, capabilities?: string[], alias_of?:
 * string }} Model
 */

/** Null: not read yet. @type {Model[] | null} */
let models = null;
/** The choice for a new chat, and the name that was typed for it. */
let fresh = { value: '', typed: '' };

const TYPED = 'typed';
const USUAL = 'usual:';

const select = () => /** @type {HTMLSelectElement} */ (byId('ask-model'));
const other = () => /** @type {HTMLInputElement} */ (byId('ask-other'));

export function mountTarget() {
  select().addEventListener('change', () => {
    drawOther();
    keep();
    if (select().value === TYPED) other().focus();
  });
  other().addEventListener('input', keep);
  on(['connection', 'models'], () => void read());
  on(['snapshot', 'run'], draw);
  onPlace(() => {
    draw();
    set(place().id === null ? fresh : { value: '', typed: '' });
  });
  onPresetModel((name) => {
    const known = (models ?? []).some(({ id }) => id === name);
    if (name === '') set({ value: '', typed: '' });
    else set(known ? { value: name, typed: '' } : { value: TYPED, typed: name });
    keep();
  });
}

/**
 * What the form names. Empty: nothing.
 * @returns {{ provider?: string, model?: string | string[] }}
 */
export function chosenTarget() {
  const { value } = select();
  if (value.startsWith(USUAL)) return { provider: value.slice(USUAL.length) };
  const names = (value === TYPED ? other().value : value)
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  const [only] = names;
  if (only === undefined) return {};
  const isProvider = (snapshot()?.providers ?? []).some(({ id }) => id === only);
  if (names.length === 1 && value === TYPED && isProvider) return { provider: only };
  return { model: names.length === 1 ? only : names };
}

function keep() {
  if (place().id === null) fresh = { value: select().value, typed: other().value };
}

/** @param {typeof fresh} wanted */
function set({ value, typed }) {
  select().value = value;
  if (select().selectedIndex < 0) select().value = '';
  other().value = typed;
  drawOther();
}

function drawOther() {
  byId('ask-other-name').hidden = select().value !== TYPED;
}

const read = inTurn(async () => {
  if (!model.connected) return;
  const answer = await ask('/v1/models').catch(() => null);
  models = answer?.data ?? models;
  draw();
});

let drawn = '';

function draw() {
  const groups = groupsOf();
  const first = usualText();
  const key = JSON.stringify([first, groups]);
  if (key === drawn) return;
  drawn = key;
  const { value } = select();
  const options = (/** @type {[string, string, boolean?][]} */ rows) =>
    rows.map(([id, text, disabled = false]) => el('option', { value: id, disabled }, text));
  select().replaceChildren(
    ...options([['', first]]),
    ...groups.map(({ label, rows }) => el('optgroup', { label }, ...options(rows))),
    ...options([[TYPED, 'Another name …']]),
  );
  set({ value, typed: other().value });
}

/** Who answers when the user names no model. */
function usualText() {
  const { page, id } = place();
  const { run } = model;
  if (page === 'chat' && id !== null && run?.id === id) return `As before: ${answererOf(run)}`;
  const usual = models?.find((one) => one.default)?.id;
  const provider = snapshot()?.providers.find((one) => one.default)?.id;
  const name = usual ?? provider;
  return name === undefined ? 'Default' : `Default: ${name}`;
}

/** The models by provider, and the usual one of a provider that lists none, or is chosen. */
function groupsOf() {
  if (models === null) return [];
  const all = models;
  const aliases = all.filter(({ alias_of }) => alias_of !== undefined);
  let left = MODELS_SHOWN;
  const take = (/** @type {Model[]} */ some) => {
    const taken = some.slice(0, left);
    left -= taken.length;
    return taken;
  };
  const groups = (snapshot()?.providers ?? []).map(({ id, kind }) => {
    const own = all.filter((one) => one.provider === id && one.alias_of === undefined);
    const usual = USUAL + id;
    const rows = take(own.filter(canAnswer)).map(rowOf);
    const isNamed = own.length > 0 && select().value !== usual;
    return {
      label: `${id} (${kind === 'cloud' ? 'cloud: leaves this machine' : 'local'})`,
      rows: isNamed ? rows : [[usual, `${id}: its usual model`], ...rows],
    };
  });
  const named = { label: 'Short names', rows: take(aliases).map(rowOf) };
  return /** @type {{ label: string, rows: [string, string, boolean?][] }[]} */ (
    [named, ...groups].filter(({ rows }) => rows.length > 0)
  );
}

/** A model that makes only vectors answers nothing. @param {Model} one */
function canAnswer({ capabilities = [] }) {
  return (
    capabilities.length === 0 ||
    capabilities.some((name) => !['embedding', 'reranking'].includes(name))
  );
}

/** @param {Model} one @returns {[string, string, boolean]} */
function rowOf({ id, state, size_bytes = null, quantization, alias_of }) {
  const isUsable = state !== 'invalid' && state !== 'partial';
  const facts = [
    id,
    alias_of === undefined ? null : `means ${alias_of}`,
    size_bytes === null ? null : formatBytes(size_bytes),
    quantization ?? null,
    state === 'loaded' ? 'in memory' : isUsable ? null : 'cannot be used',
  ];
  return [id, facts.filter((fact) => fact !== null).join(' · '), !isUsable];
}
