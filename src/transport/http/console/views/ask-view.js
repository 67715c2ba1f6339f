// @ts-check

import { MODELS_SHOWN } from '../bounds.js';
import { ApiError, ask } from '../daemon/api.js';
import { byId, el, say, setOptions } from '../parts/dom.js';
import { isAnswered } from '../parts/messages.js';
import { go, onPlace, place } from '../state/address.js';
import { adoptRun } from '../state/chosen-run.js';
import { model, on } from '../state/model.js';
import { isFinal } from '../state/shape.js';
import { goLive } from '../state/travel.js';

/**
 * The form that asks: it starts a run, or continues the conversation that the page shows. It also
 * stops the answer.
 *
 * 1. A question keeps its idempotency key until the daemon accepts it, or until the form says
 *    something else.
 * 2. A run that has not ended is not continued.
 * 3. `models` is the last list that the daemon sent. A failed request changes nothing.
 */
export function mountAsk() {
  const form = /** @type {HTMLFormElement} */ (byId('ask'));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    void start();
  });
  field('ask-prompt').addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  field('ask-provider').addEventListener('change', drawModels);
  byId('ask-stop').addEventListener('click', () => void stop());
  on(['snapshot'], drawProviders);
  on(['connection', 'models'], () => void readModels());
  on(['run', 'machines'], draw);
  onPlace(draw);
}

/** @type {{ id: string, name: string, provider: string }[]} */
let models = [];
/**
 * A question that is sent again after a lost answer is one run. @type {{ body: string, key: string
 * } | null}
 */
let sent = null;

/** @param {string} id */
function field(id) {
  return /** @type {HTMLInputElement} */ (byId(id));
}

/** The run that the next question continues. */
function before() {
  const { page, id } = place();
  return page === 'chat' && id !== null && model.run?.id === id ? model.run : null;
}

function draw() {
  const run = before();
  const isRunning = run !== null && !isFinal('run', run.state);
  byId('ask-stop').hidden = !isRunning;
  byId('ask-send').hidden = isRunning;
  field('ask-prompt').placeholder = run === null ? 'Ask something.' : 'Ask further.';
  field('ask-model').placeholder = run === null ? 'default' : `${run.model}`;
}

async function readModels() {
  if (!model.connected) return;
  const answer = await ask('/v1/models').catch(() => null);
  models = answer?.data ?? models;
  drawModels();
}

function drawProviders() {
  const options = (model.now?.providers ?? []).map(({ id, kind }) => ({
    value: id,
    text: kind === 'cloud' ? `${id} (cloud: leaves this machine)` : id,
  }));
  setOptions(/** @type {HTMLSelectElement} */ (byId('ask-provider')), [
    { value: '', text: 'default' },
    ...options,
  ]);
}

function drawModels() {
  const { value } = field('ask-provider');
  const fitting = models
    .filter((one) => value === '' || one.provider === value)
    .slice(0, MODELS_SHOWN);
  byId('ask-models').replaceChildren(
    ...fitting.map((one) => el('option', { value: value === '' ? one.id : one.name })),
  );
}

/**
 * What the form says. A conversation stays with its model unless the form names another.
 * @param {string} text
 */
function asked(text) {
  const run = before();
  const provider = field('ask-provider').value;
  const name = field('ask-model').value;
  const system = field('ask-system').value.trim();
  const isOther = provider !== '' || name !== '';
  const target = isOther || run === null ? { provider, model: name } : run;
  const numbers = { temperature: field('ask-temperature'), max_tokens: field('ask-max') };
  return {
    ...words(text, run, system),
    client: 'console',
    ...(target.provider === '' ? {} : { provider: target.provider }),
    ...(target.model === '' ? {} : { model: target.model }),
    ...Object.fromEntries(
      Object.entries(numbers)
        .filter(([, { value }]) => value !== '')
        .map(([key, { valueAsNumber }]) => [key, valueAsNumber]),
    ),
  };
}

/**
 * The daemon adds the turns before, with their pictures.
 * @param {string} prompt
 * @param {import('../state/model.js').Run | null} run
 * @param {string} system
 */
function words(prompt, run, system) {
  return {
    prompt,
    ...(system === '' ? {} : { system }),
    ...(run === null ? {} : { conversation: run.conversation ?? run.id }),
    ...(run === null || !isAnswered(run) ? {} : { continues: run.id }),
  };
}

async function start() {
  const prompt = field('ask-prompt').value;
  const said = byId('ask-said');
  if (prompt.trim() === '') return say(said, 'Write a prompt first.');
  const run = before();
  if (run !== null && !isFinal('run', run.state))
    return say(said, 'Wait for the answer, or stop it.');
  const given = asked(prompt);
  const body = JSON.stringify(given);
  if (sent?.body !== body) sent = { body, key: crypto.randomUUID() };
  say(said, '');
  byId('ask-send').setAttribute('aria-disabled', 'true');
  try {
    const started = await ask('/v1/runs', {
      method: 'POST',
      body: given,
      headers: { 'idempotency-key': sent.key },
    });
    sent = null;
    field('ask-prompt').value = '';
    goLive();
    adoptRun(started);
    go('chat', started.id);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    say(said, error.message);
  }
  byId('ask-send').removeAttribute('aria-disabled');
}

async function stop() {
  const run = before();
  if (run === null) return;
  byId('ask-stop').setAttribute('aria-disabled', 'true');
  const error = await ask(`/v1/runs/${run.id}/cancel`, { method: 'POST' }).catch(
    (thrown) => thrown,
  );
  if (error instanceof ApiError) say(byId('ask-said'), error.message);
  byId('ask-stop').removeAttribute('aria-disabled');
}
