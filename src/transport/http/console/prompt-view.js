// @ts-check
import { ApiError, ask } from './api.js';
import { MODELS_SHOWN } from './bounds.js';
import { chooseRun } from './chosen-run.js';
import { byId, el, say, setOptions } from './dom.js';
import { model, on } from './model.js';
import { goLive } from './travel.js';

/** The form that starts a run. */
export function mountPrompt() {
  const form = /** @type {HTMLFormElement} */ (byId('ask'));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    void start();
  });
  text().addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  provider().addEventListener('change', drawModels);
  on(['snapshot'], drawProviders);
  on(['connection'], () => void readModels());
}

/** @type {{ id: string, name: string, provider: string }[]} */
let models = [];
/**
 * A question that is sent again after a lost answer is one run. @type {{ body: string, key: string
 * } | null}
 */
let sent = null;

const text = () => /** @type {HTMLTextAreaElement} */ (byId('ask-prompt'));
const provider = () => /** @type {HTMLSelectElement} */ (byId('ask-provider'));
const modelName = () => /** @type {HTMLInputElement} */ (byId('ask-model'));

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
  setOptions(provider(), [{ value: '', text: 'default' }, ...options]);
}

function drawModels() {
  const { value } = provider();
  const fitting = models
    .filter((one) => value === '' || one.provider === value)
    .slice(0, MODELS_SHOWN);
  byId('ask-models').replaceChildren(
    ...fitting.map((one) => el('option', { value: value === '' ? one.id : one.name })),
  );
}

async function start() {
  const prompt = text().value;
  const said = byId('ask-said');
  if (prompt.trim() === '') return say(said, 'Write a prompt first.');
  const given = {
    prompt,
    client: 'console',
    ...(provider().value === '' ? {} : { provider: provider().value }),
    ...(modelName().value === '' ? {} : { model: modelName().value }),
  };
  const body = JSON.stringify(given);
  if (sent?.body !== body) sent = { body, key: crypto.randomUUID() };
  say(said, '');
  try {
    const run = await ask('/v1/runs', {
      method: 'POST',
      body: given,
      headers: { 'idempotency-key': sent.key },
    });
    sent = null;
    goLive();
    await chooseRun(run.id);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    say(said, error.message);
  }
}
