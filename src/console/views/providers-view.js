// @ts-check
import { LONG_MS, PROVIDERS_SHOWN } from '../bounds.js';
import { ask } from '../daemon/api.js';
import { act, actionButton } from '../parts/act.js';
import { clock, formatTime } from '../parts/clock.js';
import { askConfirmation } from '../parts/confirm.js';
import { byId, chip, el, place, say } from '../parts/dom.js';
import { markChanged, model, on, snapshot } from '../state/model.js';
import { refresh } from '../state/present.js';

/**
 * The providers: their state, why, and since when. One can add, test and remove them, and choose
 * the default one.
 */
export function mountProviders() {
  const form = /** @type {HTMLFormElement} */ (byId('provider-add'));
  const show = (/** @type {boolean} */ open) => {
    form.hidden = !open;
    byId(open ? 'provider-id' : 'provider-open').focus();
  };
  byId('provider-open').addEventListener('click', () => show(form.hidden !== false));
  byId('provider-close').addEventListener('click', () => show(false));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const button = /** @type {HTMLElement} */ (form.querySelector('[type=submit]'));
    if (button.getAttribute('aria-disabled') === 'true') return;
    void act(button, 'providers-said', async () => {
      await ask('/v1/providers', { method: 'POST', body: fieldsOfForm(), within_ms: LONG_MS });
      form.reset();
      show(false);
      news();
    });
  });
  on(['snapshot', 'machines'], draw);
}

/** An empty field is not given. */
function fieldsOfForm() {
  const fields = { id: 'provider-id', base_url: 'provider-url', model: 'provider-model' };
  return Object.fromEntries(
    Object.entries(fields)
      .map(([name, id]) => [name, /** @type {HTMLInputElement} */ (byId(id)).value.trim()])
      .filter(([, value]) => value !== ''),
  );
}

/** The events of a provider do not say all that changes. */
function news() {
  refresh();
  markChanged('models');
}

function draw() {
  const providers = snapshot()?.providers ?? [];
  place(byId('providers-rows'), providers.slice(0, PROVIDERS_SHOWN).map(row), 'provider');
}

/** @param {NonNullable<ReturnType<typeof snapshot>>['providers'][number]} one */
function row(one) {
  const retry = one.retry_at ?? null;
  return el(
    'tr',
    { 'data-provider': one.id },
    el(
      'th',
      { scope: 'row' },
      one.id,
      one.kind === 'cloud' ? el('small', {}, ' cloud') : null,
      one.default ? el('small', {}, ' default') : null,
    ),
    el('td', {}, chip('provider', one.state)),
    el('td', { class: 'num', title: one.since }, formatTime(one.since, { to: 'second' })),
    el('td', { class: 'num' }, one.models === null ? '' : String(one.models)),
    el('td', { class: 'faint' }, one.credential === 'none' ? '' : (one.credential ?? '')),
    el(
      'td',
      { class: 'text faint' },
      one.reason ?? '',
      retry === null ? null : el('small', {}, ` Asked again at ${clock(retry)}.`),
      ...(one.faulty_models ?? []).map(({ model, state, reason, retry_at }) =>
        el('p', {}, `${model}: ${state.replace('_', ' ')}, tried at ${clock(retry_at)}. ${reason}`),
      ),
      pathOf(one.transitions ?? []),
    ),
    el('td', { class: 'actions' }, ...(model.past === null ? actions(one) : [])),
  );
}

/** @param {NonNullable<ReturnType<typeof snapshot>>['providers'][number]} one */
function actions({ id, default: isDefault }) {
  const path = `/v1/providers/${encodeURIComponent(id)}`;
  const post = (/** @type {string} */ what) => async () => {
    await ask(`${path}/${what}`, { method: 'POST', within_ms: LONG_MS });
    news();
  };
  const remove = async () => {
    if (!(await askConfirmation(`Remove the provider ${id}?`, 'Remove it'))) return;
    await ask(path, { method: 'DELETE' });
    say(byId('announce'), `The provider ${id} was removed.`);
    news();
  };
  // The built-in engine is not a setting.
  const isBuiltIn = id === 'local';
  return [
    actionButton('Test', `Test ${id}`, 'providers-said', post('test')),
    isDefault === true
      ? null
      : actionButton('Default', `Make ${id} the default`, 'providers-said', post('default')),
    isBuiltIn
      ? null
      : actionButton('Remove', `Remove ${id}`, 'providers-said', remove, { bad: true }),
  ];
}

/**
 * The latest states of a provider. The past has none.
 * @param {{ at: string, state: string }[]} transitions
 */
function pathOf(transitions) {
  if (transitions.length < 2) return null;
  const states = transitions.map(({ at, state }) => `${clock(at)} ${state}`);
  return el('details', {}, el('summary', {}, 'History'), states.join(' → '));
}
