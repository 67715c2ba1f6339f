// @ts-check

import { ApiError, ask } from '../daemon/api.js';
import { contentWith } from '../parts/attached.js';
import { byId, say } from '../parts/dom.js';
import { isAnswered } from '../parts/messages.js';
import { toEnd } from '../parts/page-end.js';
import { go, onPlace, place } from '../state/address.js';
import { adoptRun } from '../state/chosen-run.js';
import { model, on } from '../state/model.js';
import { isFinal } from '../state/shape.js';
import { goLive } from '../state/travel.js';
import { fieldsOfForm, inTemplate, systemText } from './fields-view.js';
import { dropFiles, readFiles } from './files-view.js';
import { chosenTarget } from './target-view.js';

/**
 * The form that asks: it starts a run, or continues the conversation that the page shows. It also
 * stops the answer.
 *
 * 1. A question keeps its idempotency key until the daemon accepts it, or until the form says
 *    something else.
 * 2. A run that has not ended is not continued.
 * 3. What the user writes or attaches while a question is on its way stays for the next one.
 *
 * @typedef {import('../parts/attached.js').Attached} Attached
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
  byId('ask-stop').addEventListener('click', () => void stop());
  // A growing answer may move the button before the mouse lets it go, and then no click comes.
  byId('ask-stop').addEventListener('pointerdown', ({ pointerType, button }) => {
    if (pointerType === 'mouse' && button === 0) void stop();
  });
  on(['run', 'machines', 'connection'], draw);
  onPlace(draw);
}

/**
 * A question that is sent again after a lost answer is one run. @type {{ body: string, key: string
 * } | null}
 */
let sent = null;
/** Why the last question was not sent, while the form says it. @type {string | null} */
let refused = null;

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
  if (refused !== null && whyNot() !== refused) {
    refused = null;
    say(byId('ask-said'), '');
  }
  field('ask-prompt').placeholder = run === null ? 'Ask something.' : 'Ask further.';
}

/**
 * What the form says now, to be completed by its files. A conversation stays with its model unless
 * the form names another. The daemon adds the turns before, with their pictures.
 * @param {string} prompt
 * @param {object} fields
 */
function requestFor(prompt, fields) {
  const run = before();
  const target = chosenTarget();
  const isOther = target.provider !== undefined || target.model !== undefined;
  const text = inTemplate(prompt);
  const system = systemText();
  return (/** @type {readonly Attached[]} */ files) => ({
    ...words(text, system, files),
    client: 'console',
    ...(run === null ? {} : { conversation: run.conversation ?? run.id }),
    ...(run === null || !isAnswered(run) ? {} : { continues: run.id }),
    ...(isOther || run === null ? target : { provider: run.provider, model: run.model }),
    ...fields,
  });
}

/**
 * The prompt with its files. With an image it is a message.
 * @param {string} prompt
 * @param {string} system
 * @param {readonly Attached[]} files
 */
function words(prompt, system, files) {
  const content = contentWith(prompt, files);
  if ('prompt' in content) return { ...content, ...(system === '' ? {} : { system }) };
  const before = system === '' ? [] : [{ role: 'system', content: system }];
  return { messages: [...before, { role: 'user', content: content.parts }] };
}

/** Why no question can be accepted now. Null: it can. */
function whyNot() {
  const run = before();
  if (!model.connected) return 'The daemon is gone. The prompt stays here.';
  if (run !== null && !isFinal('run', run.state)) return 'Wait for the answer, or stop it.';
  return null;
}

async function start() {
  const prompt = field('ask-prompt').value;
  const fields = fieldsOfForm();
  if (typeof fields === 'string') return say(byId('ask-said'), fields);
  const question = requestFor(prompt, fields);
  const files = await readFiles();
  if (files === null) return;
  if (prompt.trim() === '' && files.length === 0)
    return say(byId('ask-said'), 'Write a prompt first.');
  if (!(await send(question(files)))) return;
  if (field('ask-prompt').value === prompt) field('ask-prompt').value = '';
  dropFiles(files);
  // The open menu would cover the answer.
  byId('ask-more').removeAttribute('open');
}

/**
 * Whether the same question can be asked again. One with pictures or foreign messages cannot: the
 * page does not have them.
 * @param {import('../state/model.js').Run} run
 */
export function canAskAgain({ prompt, messages = [], continues }) {
  const parts = messages.at(-1)?.content ?? [];
  const isPlain = parts.length <= 1 && parts.every(({ type }) => type === 'text');
  return prompt !== '' && isPlain && (messages.length === 0 || continues !== undefined);
}

/** Asks the question of the shown run again, of the same model, after the same turns. */
export async function askAgain() {
  const { run } = model;
  if (run === null) return;
  const { prompt, system, provider, model: name, conversation, continues } = run;
  const fields = fieldsOfForm();
  if (typeof fields === 'string') return say(byId('ask-said'), fields);
  await send({
    prompt,
    provider,
    model: name,
    client: 'console',
    ...(system === null ? {} : { system }),
    ...(continues === undefined ? {} : { conversation: conversation ?? continues, continues }),
    ...fields,
  });
}

/** Whether the daemon has accepted it. @param {object} question */
async function send(question) {
  const line = byId('ask-said');
  // A daemon that was late once may answer: the request itself finds out.
  refused = model.connected ? whyNot() : null;
  if (refused !== null) {
    say(line, refused);
    return false;
  }
  const body = JSON.stringify(question);
  if (sent?.body !== body) sent = { body, key: crypto.randomUUID() };
  say(line, '');
  byId('ask-send').setAttribute('aria-disabled', 'true');
  try {
    const started = await ask('/v1/runs', {
      method: 'POST',
      body: question,
      headers: { 'idempotency-key': sent.key },
    });
    sent = null;
    goLive();
    adoptRun(started);
    go('chat', started.id);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    refused = error.status === null ? whyNot() : null;
    say(line, refused ?? error.message);
    return false;
  } finally {
    byId('ask-send').removeAttribute('aria-disabled');
  }
}

async function stop() {
  const run = before();
  const isAsked = byId('ask-stop').hasAttribute('aria-disabled');
  if (run === null || isFinal('run', run.state) || isAsked) return;
  byId('ask-stop').setAttribute('aria-disabled', 'true');
  // The message about the stop is there.
  toEnd();
  const error = await ask(`/v1/runs/${run.id}/cancel`, { method: 'POST' }).catch(
    (thrown) => thrown,
  );
  if (error instanceof ApiError) say(byId('ask-said'), error.message);
  byId('ask-stop').removeAttribute('aria-disabled');
}
