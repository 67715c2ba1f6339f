// @ts-check

import { LOAD_LOOK_MS } from '../bounds.js';
import { ask } from '../daemon/api.js';
import { AnswerBox } from '../parts/answer.js';
import { answererOf } from '../parts/answerer.js';
import { copyButton } from '../parts/copy.js';
import { byId, chip, el, say } from '../parts/dom.js';
import { summaryOf } from '../parts/figures.js';
import { drawMarkdown } from '../parts/markdown.js';
import { fill, silentParts, turnsBefore } from '../parts/messages.js';
import { isAtEnd, toEnd } from '../parts/page-end.js';
import { drawProblem, problemOf } from '../parts/problem.js';
import { addressOf, place } from '../state/address.js';
import { missing } from '../state/chosen-run.js';
import { model, on } from '../state/model.js';
import { isFinal } from '../state/shape.js';
import { toneOf, wordsOf } from '../state/tone.js';
import { askAgain, canAskAgain } from './ask-view.js';

/**
 * A conversation: its turns, and the answer where one looks. A conversation is its last run, whose
 * request has the turns before it. So its address can be shared and reloaded.
 *
 * 1. `shown` is the key of the turns on the page. They are drawn again only when it changes.
 * 2. The answer has one element. It is on the page while a run is chosen.
 */
export function mountChat() {
  on(['run', 'machines', 'connection'], draw);
  on(['run', 'output'], drawAnswer);
  on(['connection'], drawAnswer);
  setInterval(() => void lookAtLoad(), LOAD_LOOK_MS);
}

/** What the turns before the answer show. */
let shown = '';
const answer = el('div', { class: 'prose', id: 'chat-answer' });
const parts = el('div', { class: 'silent', hidden: true });
const facts = el('span', { class: 'faint' });
const again = el(
  'button',
  { type: 'button', class: 'quiet', id: 'chat-again', click: () => void askAgain() },
  'Ask again',
);
const turn = el(
  'article',
  { class: 'turn assistant', 'aria-label': 'Answer' },
  parts,
  answer,
  el(
    'p',
    { class: 'foot' },
    facts,
    copyButton(() => model.run?.output ?? '', 'Copy the answer'),
    again,
  ),
);
const box = new AnswerBox(() => answer, { isAtEnd, toEnd });

function draw() {
  const { run } = model;
  const follows = isAtEnd();
  const before = run === null ? [] : turnsBefore(run);
  const key = JSON.stringify([run?.id ?? null, before]);
  if (key !== shown) {
    shown = key;
    byId('chat-turns').replaceChildren(...before.map(turnOf), ...(run === null ? [] : [turn]));
    // The page of a new address is shown after this, and starts at its top.
    if (run !== null) requestAnimationFrame(toEnd);
  }
  byId('chat-state').replaceChildren(...(run === null ? [] : [chip('run', run.state)]));
  byId('chat-new').hidden = run === null;
  const link = /** @type {HTMLAnchorElement} */ (byId('chat-run'));
  link.hidden = run === null;
  if (run !== null) link.setAttribute('href', addressOf('run', run.id));
  drawProblem(byId('chat-error'), problem());
  say(byId('chat-wait'), run === null ? '' : waitText(run));
  // The form covers the end of the page, so what is new there must not stay behind it.
  if (follows && run !== null) toEnd();
}

/** Of the run, or of an address that leads to none. */
function problem() {
  const { run } = model;
  if (run !== null) return isFinal('run', run.state) ? problemOf(run) : null;
  return missing.reason === null ? null : { code: 'run_unknown', message: missing.reason };
}

/** @param {import('../parts/messages.js').Line} line */
function turnOf({ role, name, text, kind }) {
  if (role !== 'assistant' || kind !== 'text')
    return el(
      'article',
      { class: `turn ${role} ${kind}`, 'aria-label': role === 'user' ? 'You' : name },
      role === 'user' && kind === 'text' ? null : el('small', { class: 'faint' }, name),
      el('p', { class: 'as-is' }, text),
    );
  const prose = el('div', { class: 'prose' });
  drawMarkdown(prose, text);
  return el('article', { class: 'turn assistant', 'aria-label': 'Answer' }, prose);
}

function drawAnswer() {
  const { run } = model;
  if (run === null || place().page !== 'chat') return;
  const isOver = isFinal('run', run.state);
  fill(parts, silentParts(run));
  say(facts, isOver ? summaryOf(run) : answererOf(run));
  turn.classList.toggle('empty', run.output === '' && parts.childElementCount === 0);
  turn.classList.toggle(
    'growing',
    model.connected && !isOver && toneOf('run', run.state) === 'active',
  );
  again.hidden = !isOver || !canAskAgain(run);
  // Last, because it moves the view to the end of all that is drawn here.
  box.draw(run.output, isOver);
}

/**
 * The reason for the wait, before and between the words of the answer.
 * @param {import('../state/model.js').Run} run
 */
function waitText(run) {
  if (!model.connected || isFinal('run', run.state) || run.state === 'streaming') return '';
  if (load !== '' && run.state === 'starting') return load;
  const last = run.failed_attempts?.at(-1);
  const queued = run.queue_position;
  return [
    wordsOf('run', run.state),
    queued === null ? '' : queued === 1 ? 'It is next.' : `${queued - 1} are before it.`,
    run.state === 'backoff' && last !== undefined ? last.message : '',
  ]
    .filter((text) => text !== '')
    .join(' ');
}

/** How far the model of the run is loaded, in words. The log has no events of it. */
let load = '';

async function lookAtLoad() {
  const { run } = model;
  const isWaiting = run?.state === 'starting' && model.connected && place().page === 'chat';
  if (!isWaiting || document.hidden) {
    load = '';
    return;
  }
  const loaded = await ask('/v1/models/loaded').catch(() => null);
  const progress = loaded?.models.find(
    (/** @type {{ id: string }} */ { id }) => id === `${run.provider}/${run.model}`,
  )?.progress;
  load = progress == null ? '' : `Loading ${run.model}, ${Math.floor(progress * 100)} %.`;
  if (model.run !== null) say(byId('chat-wait'), waitText(model.run));
}
