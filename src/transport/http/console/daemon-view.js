// @ts-check
import { PROVIDERS_SHOWN } from './bounds.js';
import { clock, moment, since } from './clock.js';
import { byId, chip, el, say } from './dom.js';
import { model, on, snapshot } from './model.js';
import { paintOf } from './shape.js';

/** @type {Record<string, string>} */
const ENDINGS = { killed: 'was killed', power_lost: 'lost its power', failed: 'failed' };

/** The daemon: its state, the queue, the providers, the engines. */
export function mountDaemon() {
  on(['snapshot', 'machines', 'connection'], () => {
    drawStatus();
    drawQueue();
    drawProviders();
    drawEngines();
  });
  // Ages grow without events.
  setInterval(drawStatus, 1000);
}

function drawStatus() {
  const shown = snapshot();
  say(
    byId('connection'),
    model.connected || (model.now === null && model.lost === '')
      ? ''
      : `Connection lost, trying again … ${model.lost}`.trim(),
  );
  document.body.classList.toggle('lost', !model.connected && model.now !== null);
  if (shown === null) return;
  const { status } = shown;
  const path = byId('status-path');
  path.className = `chip ${paintOf('daemon', status.state_path)}`;
  say(path, status.state_path);
  say(
    byId('status-since'),
    model.past === null ? `for ${since(status.since)}` : `since ${clock(status.since)}`,
  );
  say(
    byId('status-facts'),
    `${status.version} · pid ${status.pid} · ${status.addresses.http?.replace(/^\w+:\/\//, '') ?? 'not listening'}`,
  );
  const last = status.last_boot;
  say(
    byId('status-last'),
    last === null || last.ending === 'clean'
      ? ''
      : `The life before ${ENDINGS[last.ending] ?? last.ending}, ${moment(last.at)}.`,
  );
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

function drawProviders() {
  const providers = snapshot()?.providers.slice(0, PROVIDERS_SHOWN) ?? [];
  byId('providers-rows').replaceChildren(
    ...providers.map((one) =>
      el(
        'tr',
        {},
        el('th', { scope: 'row' }, one.id, one.kind === 'cloud' ? el('small', {}, ' cloud') : null),
        el('td', {}, chip(one.state, paintOf('provider', one.state))),
        el('td', { class: 'num' }, one.models === null ? '' : String(one.models)),
        el(
          'td',
          { class: 'detail' },
          one.reason ?? '',
          el('small', {}, ` since ${clock(one.since)}`),
          pathOf(one.transitions ?? []),
        ),
      ),
    ),
  );
}

/**
 * The latest states of a provider. The past has none.
 * @param {{ at: string, state: string }[]} transitions
 */
function pathOf(transitions) {
  if (transitions.length < 2) return null;
  const states = transitions.map(({ at, state }) => `${clock(at)} ${state}`);
  return el('small', { class: 'faint' }, ` (${states.join(' → ')})`);
}

/** One line for each local model in memory. Without any: the engine whose state changed last. */
function drawEngines() {
  const shown = snapshot();
  if (shown === null || shown === undefined) return;
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
    'Engine ',
    chip(engine.state_path, paintOf('engine', engine.state_path)),
    ' ',
    el('span', { class: 'faint' }, facts.filter((fact) => fact !== null).join(' · ')),
  );
}
