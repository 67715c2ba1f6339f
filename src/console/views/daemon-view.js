// @ts-check
import { clock, formatDuration, formatTime, since } from '../parts/clock.js';
import { byId, chip, el, say } from '../parts/dom.js';
import { model, on, snapshot } from '../state/model.js';
import { daemonSays, toneOf, wordsOf } from '../state/tone.js';

/** @type {Record<string, string>} */
const ENDINGS = {
  killed: 'was killed',
  power_lost: 'lost its power',
  lease_lost: 'lost its lease',
  failed: 'failed',
};

/**
 * The daemon: its state, its queue and its engines. A daemon that does not answer is shown as gone.
 * Its earlier state is not shown.
 */
export function mountDaemon() {
  on(['snapshot', 'machines', 'connection'], () => {
    drawStatus();
    drawQueue();
    drawEngines();
  });
  // Ages grow without events.
  setInterval(drawStatus, 1000);
}

function drawStatus() {
  const isGone = !model.connected && (model.now !== null || model.lost !== '');
  document.body.classList.toggle('gone', isGone);
  const ago = model.seen_at === 0 ? '' : ` for ${formatDuration(Date.now() - model.seen_at)}`;
  say(byId('connection'), isGone ? `The daemon is gone. Trying again … ${model.lost}`.trim() : '');
  const shown = snapshot();
  if (shown === null) return;
  const { status } = shown;
  const path = byId('status-path');
  const isKnown = !isGone || model.past !== null;
  path.className = `chip ${isKnown ? toneOf('daemon', status.state_path) : 'bad'}`;
  path.title = isKnown ? wordsOf('daemon', status.state_path) : '';
  say(path, isKnown ? daemonSays(status.state_path) : 'gone');
  say(
    byId('status-since'),
    model.past !== null ? `since ${clock(status.since)}` : isGone ? ago : lastingState(status),
  );
  say(byId('status-facts'), `${status.version} · pid ${status.pid} · ${addressIn(status)}`);
  const last = status.last_boot;
  say(
    byId('status-last'),
    last === null || last.ending === 'clean'
      ? ''
      : `The life before ${ENDINGS[last.ending] ?? last.ending}, ${last.ending === 'failed' ? '' : 'last event '}${formatTime(last.at)}.`,
  );
}

/**
 * How long it is as it is. Runs that come and go do not count: it is ready all the while.
 * @param {import('../state/model.js').Snapshot['status']} status
 */
function lastingState({ state, since: entered, ready_since, runs }) {
  if (state === 'ready') return `for ${since(ready_since ?? entered)}`;
  const work = `${runs.active} run${runs.active === 1 ? '' : 's'}`;
  return ready_since === undefined ? `for ${since(entered)}` : `${work}, up ${since(ready_since)}`;
}

/** @param {import('../state/model.js').Snapshot['status']} status */
function addressIn({ addresses }) {
  return addresses.http?.replace(/^\w+:\/\//, '') ?? 'not listening';
}

function drawQueue() {
  const shown = snapshot();
  if (shown === null) return;
  const { runs } = shown.status;
  const meter = /** @type {HTMLMeterElement} */ (byId('queue-meter'));
  meter.max = Math.max(1, shown.queue.capacity);
  meter.value = shown.queue.length + runs.active;
  say(
    byId('queue-text'),
    `${runs.active} active, ${shown.queue.length} waiting, room for ${shown.queue.capacity}${runs.finished === null ? '' : `; ${runs.finished} finished`}`,
  );
}

/** One line for each local model in memory. Without any: the engine whose state changed last. */
function drawEngines() {
  const shown = snapshot();
  if (shown === null) return;
  const engines = shown.engines.length === 0 ? [shown.engine] : shown.engines;
  byId('engines').replaceChildren(...engines.map(lineOf));
}

/** @param {NonNullable<ReturnType<typeof snapshot>>['engine']} engine */
function lineOf(engine) {
  const facts = [
    engine.model,
    engine.pid === null ? null : `pid ${engine.pid}`,
    engine.threads === null ? null : `${engine.threads} thread${engine.threads === 1 ? '' : 's'}`,
    engine.context_length === null ? null : `${engine.context_length} tokens of context`,
    engine.parallel === null ? null : `${engine.parallel} at a time`,
    engine.error,
  ];
  return el(
    'li',
    {},
    chip('engine', engine.state_path),
    ' ',
    el('span', { class: 'faint' }, facts.filter((fact) => fact !== null).join(' · ')),
  );
}
