// @ts-check
import { ApiError, ask } from './api.js';
import { OUTPUT_CHARACTERS, TIMELINE_ROWS } from './bounds.js';
import { missing } from './chosen-run.js';
import { clock, lasting, moment } from './clock.js';
import { byId, chip, el, place, say } from './dom.js';
import { conversation, fill, silentParts } from './messages.js';
import { model, on } from './model.js';
import { machineOf, paintOf } from './shape.js';
import { at, travelTo } from './travel.js';

/**
 * The chosen run: the prompt, the answer as it grows, its explanation, and the button to cancel it.
 */
export function mountRun() {
  byId('run-cancel').addEventListener('click', () => void cancel());
  on(['run', 'machines', 'events'], draw);
  on(['run', 'output'], drawOutput);
}

/** @type {string} */
let announced = '';

function draw() {
  const { run } = model;
  byId('run-none').hidden = run !== null;
  byId('run-body').hidden = run === null;
  say(byId('run-none'), missing.reason ?? 'Choose a run from the list, or ask something.');
  if (run === null) return;
  const over = isOver(run.state);
  byId('run-state').replaceChildren(chip(run.state, paintOf('run', run.state)));
  say(byId('run-id'), run.id);
  const asked = conversation(run);
  byId('run-prompt').hidden = asked.length > 0;
  say(byId('run-prompt'), run.prompt);
  fill(byId('run-messages'), asked);
  fill(byId('run-parts'), silentParts(run));
  byId('run-facts').replaceChildren(...facts(run));
  byId('run-error').hidden = run.error === null;
  say(byId('run-error'), run.error === null ? '' : `${run.error.code}: ${run.error.message}`);
  byId('run-cancel').hidden = over || at() !== null;
  drawTimeline();
  announce(`Run ${run.state}`, over && at() === null);
}

/** @param {import('./model.js').Run} run */
function facts(run) {
  const { usage } = run;
  /** @type {[string, string | null][]} */
  const rows = [
    ['model', `${run.provider}/${run.model}${run.cloud ? ' (cloud)' : ''}`],
    ['created', moment(run.created_at)],
    [
      'waited',
      run.started_at === null
        ? null
        : lasting(Date.parse(run.started_at) - Date.parse(run.created_at)),
    ],
    [
      'first output',
      run.first_output_at === null || run.started_at === null
        ? null
        : `after ${lasting(Date.parse(run.first_output_at) - Date.parse(run.started_at))}`,
    ],
    [
      'took',
      run.ended_at === null ? null : lasting(Date.parse(run.ended_at) - Date.parse(run.created_at)),
    ],
    ['place in queue', run.queue_position === null ? null : String(run.queue_position)],
    ['attempts', run.attempts > 1 ? String(run.attempts) : null],
    [
      'tokens',
      usage.output_tokens === null
        ? null
        : `${usage.input_tokens ?? '?'} in, ${usage.output_tokens} out`,
    ],
    ['finished by', run.finish_reason],
    ['asked by', run.client],
  ];
  return rows.flatMap(([name, value]) =>
    value === null ? [] : [el('div', {}, el('dt', {}, name), el('dd', {}, value))],
  );
}

/** Only new text is appended, so that a long answer stays fast and a selection survives. */
function drawOutput() {
  const box = byId('run-output');
  const full = model.run?.output ?? '';
  const text = full.slice(-OUTPUT_CHARACTERS);
  byId('run-cut').hidden = text.length === full.length;
  const node = box.firstChild;
  const shown = node instanceof Text ? node.data : '';
  const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
  if (text === shown) return;
  if (node instanceof Text && text.length === full.length && text.startsWith(shown))
    node.appendData(text.slice(shown.length));
  else box.replaceChildren(text);
  if (atEnd) box.scrollTop = box.scrollHeight;
}

/** The first and the last events. Those after the shown position are faint. */
function drawTimeline() {
  const events = model.why?.events ?? [];
  const half = TIMELINE_ROWS / 2;
  const shown =
    events.length <= TIMELINE_ROWS ? events : [...events.slice(0, half), ...events.slice(-half)];
  const first = events[0];
  place(
    byId('run-timeline'),
    shown.map((event) => row(event, first?.at ?? event.at)),
    'seq',
  );
  say(
    byId('run-left-out'),
    shown.length === events.length
      ? ''
      : `${events.length - shown.length} events between them are left out.`,
  );
  byId('run-why').replaceChildren(
    ...(model.why?.explanation ?? []).slice(0, TIMELINE_ROWS).map((line) => el('li', {}, line)),
  );
}

/**
 * @param {NonNullable<import('./model.js').Why>['events'][number]} event
 * @param {string} start
 */
function row(event, start) {
  const now = at();
  const later = now !== null && event.seq > now;
  const go = () => void travelTo(event.seq, { now: true });
  return el(
    'tr',
    {
      class: `${later ? 'later' : ''} ${now === event.seq ? 'current' : ''}`,
      'data-seq': event.seq,
    },
    el(
      'td',
      {},
      el(
        'button',
        { type: 'button', class: 'seq', title: 'Go to this moment', click: go },
        String(event.seq),
      ),
    ),
    el('td', { class: 'num' }, clock(event.at)),
    el('td', { class: 'num' }, `+${lasting(Date.parse(event.at) - Date.parse(start))}`),
    el(
      'td',
      {},
      event.type.replace('run.', ''),
      event.left_out === undefined ? null : el('small', {}, ` and ${event.left_out} before it`),
    ),
    el(
      'td',
      {},
      event.state_path === '' ? null : chip(event.state_path, paintOf('run', event.state_path)),
    ),
    el('td', { class: 'detail' }, detail(event.data)),
  );
}

/** @param {Record<string, any>} data */
function detail({ text, error, deadline, by, reason, finish_reason, downtime_ms, resumes }) {
  if (typeof text === 'string')
    return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
  if (error !== undefined) return `${error.code}: ${error.message}`;
  if (downtime_ms !== undefined) return `after ${lasting(downtime_ms)} without a daemon`;
  return String(
    finish_reason ?? deadline ?? by ?? reason ?? (resumes ? 'goes on after what was recorded' : ''),
  );
}

async function cancel() {
  const { run } = model;
  if (run === null) return;
  const button = byId('run-cancel');
  button.setAttribute('aria-disabled', 'true');
  try {
    await ask(`/v1/runs/${run.id}/cancel`, { method: 'POST' });
  } catch (error) {
    if (error instanceof ApiError) announce(error.message, true);
  }
  button.removeAttribute('aria-disabled');
}

/** @param {string} state */
export function isOver(state) {
  return machineOf('run')?.states.find(({ path }) => path === state)?.type === 'final';
}

/**
 * Announced once to screen readers.
 * @param {string} text
 * @param {boolean} worth
 */
function announce(text, worth) {
  const said = `${text} ${model.run?.id}`;
  if (!worth || said === announced) return;
  announced = said;
  say(byId('announce'), text);
}
