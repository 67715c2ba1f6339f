// @ts-check

import { OUTPUT_CHARACTERS, TIMELINE_ROWS } from '../bounds.js';
import { ApiError, ask } from '../daemon/api.js';
import { AnswerBox } from '../parts/answer.js';
import { answererOf } from '../parts/answerer.js';
import { clock, formatDuration, formatTime } from '../parts/clock.js';
import { copy, copyButton } from '../parts/copy.js';
import { byId, chip, el, place as placeRows, say } from '../parts/dom.js';
import { firstTokenMs, formatSpeed, speedOf, tookMs } from '../parts/figures.js';
import { conversation, fill, lastTurn, silentParts } from '../parts/messages.js';
import { drawProblem, problemOf } from '../parts/problem.js';
import { addressOf, onPlace, place } from '../state/address.js';
import { missing } from '../state/chosen-run.js';
import { model, on } from '../state/model.js';
import { isFinal } from '../state/shape.js';
import { wordsOf } from '../state/tone.js';
import { at, travelTo } from '../state/travel.js';

/**
 * The page of a run: its input, its answer as it grows, its figures, its error, its events and its
 * explanation.
 */
export function mountRun() {
  byId('run-cancel').addEventListener('click', () => void cancel());
  byId('run-link').addEventListener('click', () => void copy(byId('run-link'), location.href));
  byId('run-copy').append(copyButton(() => model.run?.output ?? '', 'Copy the answer'));
  byId('run-plain').addEventListener('click', () => {
    box.plain = !box.plain;
    byId('run-plain').setAttribute('aria-pressed', String(box.plain));
    box.now();
  });
  onPlace(draw);
  onPlace(drawOutput);
  on(['run', 'machines', 'events'], draw);
  on(['run', 'output'], drawOutput);
}

/** @type {string} */
let announced = '';
const box = new AnswerBox(() => byId('run-output'));

function draw() {
  const { run } = model;
  byId('run-none').hidden = run !== null;
  byId('run-body').hidden = run === null;
  say(byId('run-none'), missing.reason ?? '');
  say(byId('run-id'), place().id ?? '');
  byId('run-state').replaceChildren(...(run === null ? [] : [chip('run', run.state)]));
  say(byId('run-words'), run === null ? '' : wordsOf('run', run.state));
  for (const id of ['run-chat', 'run-link', 'run-cancel']) byId(id).hidden = run === null;
  if (run === null) return;
  const over = isFinal('run', run.state);
  byId('run-chat').setAttribute('href', addressOf('chat', run.id));
  const messages = conversation(run);
  byId('run-prompt').hidden = messages.length > 0;
  say(byId('run-prompt'), run.prompt);
  const { before, turn } = lastTurn(messages);
  byId('run-before').hidden = before.length === 0;
  say(byId('run-before-count'), `What was said before (${before.length})`);
  fill(byId('run-earlier'), before);
  fill(byId('run-messages'), turn);
  fill(byId('run-parts'), silentParts(run));
  byId('run-facts').replaceChildren(...facts(run));
  drawProblem(byId('run-error'), problemOf(run));
  byId('run-cancel').hidden = over || at() !== null;
  drawTimeline();
  announce(`Run ${run.state}`, over && at() === null);
}

/** @param {import('../state/model.js').Run} run */
function facts(run) {
  const { usage } = run;
  const [first, speed] = [firstTokenMs(run), speedOf(run)];
  /** @type {[string, string | null][]} */
  const rows = [
    ['model', answererOf(run)],
    ['created', formatTime(run.created_at)],
    [
      'waited',
      run.started_at === null
        ? null
        : formatDuration(Date.parse(run.started_at) - Date.parse(run.created_at)),
    ],
    ['first token', first === null ? null : `after ${formatDuration(first)}`],
    ['took', run.ended_at === null ? null : formatDuration(tookMs(run))],
    ['waited for you', run.waited_ms === undefined ? null : formatDuration(run.waited_ms)],
    ['place in queue', run.queue_position === null ? null : String(run.queue_position)],
    ['attempts', run.attempts > 1 ? String(run.attempts) : null],
    [
      'tokens',
      usage.output_tokens === null
        ? null
        : `${usage.input_tokens ?? '?'} in, ${usage.output_tokens} out`,
    ],
    ['speed', speed === null ? null : formatSpeed(speed)],
    ['finished by', run.finish_reason],
    ['asked by', run.asked_by === undefined ? run.client : `${run.client} (token ${run.asked_by})`],
    ['tools say', reports(run)],
    ['left this machine', cloudsOf(run)],
    ['failed attempts', failures(run)],
  ];
  return rows.flatMap(([name, value]) =>
    value === null ? [] : [el('div', {}, el('dt', {}, name), el('dd', {}, value))],
  );
}

/**
 * The last words of the servers of calls that work.
 * @param {import("../state/model.js").Run} run
 */
function reports({ tool_calls = [] }) {
  const said = tool_calls.flatMap(({ call, state, report }) =>
    state === 'started' && report !== undefined ? [`call ${call}: ${report}`] : [],
  );
  return said.length === 0 ? null : said.join(' · ');
}

/** Which clouds got the prompt. @param {import('../state/model.js').Run} run */
function cloudsOf({ sent_to_cloud = [] }) {
  const names = new Set(sent_to_cloud.map(({ provider }) => provider));
  return names.size === 0 ? null : `to ${[...names].join(', ')}`;
}

/** @param {import('../state/model.js').Run} run */
function failures({ failed_attempts = [] }) {
  const attempts = failed_attempts.map(({ attempt, code }) => `${attempt}: ${code}`);
  return attempts.length === 0 ? null : attempts.join(', ');
}

function drawOutput() {
  const { run } = model;
  if (run === null || place().page !== 'run') return;
  byId('run-cut').hidden = run.output.length <= OUTPUT_CHARACTERS;
  box.draw(run.output, isFinal('run', run.state) || at() !== null);
}

/** The first and the last events. Those after the shown position are faint. */
function drawTimeline() {
  const events = model.why?.events ?? [];
  const half = TIMELINE_ROWS / 2;
  const shown =
    events.length <= TIMELINE_ROWS ? events : [...events.slice(0, half), ...events.slice(-half)];
  const first = events[0];
  placeRows(
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
 * @param {NonNullable<import('../state/model.js').Why>['events'][number]} event
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
    el('td', { class: 'num' }, `+${formatDuration(Date.parse(event.at) - Date.parse(start))}`),
    el(
      'td',
      {},
      event.type.replace('run.', ''),
      event.left_out === undefined ? null : el('small', {}, ` and ${event.left_out} before it`),
    ),
    el('td', {}, event.state_path === '' ? null : chip('run', event.state_path)),
    el('td', { class: 'detail' }, detail(event.data)),
  );
}

/** @param {Record<string, any>} data */
function detail({ text, error, deadline, by, reason, finish_reason, downtime_ms, resumes }) {
  if (typeof text === 'string')
    return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
  if (error !== undefined) return `${error.code}: ${error.message}`;
  if (downtime_ms !== undefined) return `after ${formatDuration(downtime_ms)} without a daemon`;
  return String(
    finish_reason ?? deadline ?? by ?? reason ?? (resumes ? 'resumes after what was recorded' : ''),
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

/**
 * Announced once to screen readers.
 * @param {string} text
 * @param {boolean} worth
 */
function announce(text, worth) {
  const news = `${text} ${model.run?.id}`;
  if (!worth || news === announced) return;
  announced = news;
  say(byId('announce'), text);
}
