// @ts-check
import { FLASH_MS, INSTANCES_SHOWN } from './bounds.js';
import { chosenId } from './chosen-run.js';
import { clock } from './clock.js';
import { diagramOf } from './diagram.js';
import { byId, chip, el, say, setOptions } from './dom.js';
import { model, on, snapshot } from './model.js';
import { entered, holds, leaving, machineOf, paintOf, transitionsFor } from './shape.js';
import { at } from './travel.js';
import { lastStep, placeOf } from './walk.js';

/**
 * The machines as diagrams. The present state is lit, and its last edge flashes.
 *
 * @typedef {{ stream: string, path: string | null, since: string | null }} Place
 */
export function mountMachines() {
  instances().addEventListener('change', light);
  byId('machine-zoom').addEventListener('click', () => {
    const whole = byId('machine-zoom').getAttribute('aria-pressed') !== 'true';
    byId('machine-zoom').setAttribute('aria-pressed', String(whole));
    fit();
  });
  new ResizeObserver(fit).observe(byId('diagram'));
  on(['machines'], drawTabs);
  on(['machines', 'snapshot', 'run', 'walk'], light);
}

let name = 'daemon';
/** The last step that flashed, so that it flashes once. */
let flashed = '';

const instances = () => /** @type {HTMLSelectElement} */ (byId('machine-instance'));

/** @param {number} index */
export function showMachine(index) {
  const machine = model.machines[index];
  if (machine !== undefined) void choose(machine.name);
}

function drawTabs() {
  byId('machine-tabs').replaceChildren(
    ...model.machines.map((machine) =>
      el(
        'button',
        {
          type: 'button',
          'data-machine': machine.name,
          'aria-pressed': String(machine.name === name),
          click: () => void choose(machine.name),
        },
        machine.name,
        el('small', {}),
      ),
    ),
  );
  void choose(name);
}

/** @param {string} wanted */
async function choose(wanted) {
  name = wanted;
  for (const tab of byId('machine-tabs').children)
    tab.setAttribute(
      'aria-pressed',
      String(tab instanceof HTMLElement && tab.dataset.machine === name),
    );
  const svg = await diagramOf(name).catch(() => null);
  if (name !== wanted) return;
  if (svg === null) byId('diagram').replaceChildren('The diagram could not be loaded.');
  else byId('diagram').replaceChildren(svg);
  flashed = '';
  fit();
  light();
}

/** @returns {Place[]} */
function places() {
  const found = (snapshot()?.instances ?? [])
    .filter(({ machine }) => machine === name)
    .slice(0, INSTANCES_SHOWN);
  const rows = found.map(({ stream, state_path, since }) => ({
    stream,
    path: placeOf(stream) ?? state_path,
    since: placeOf(stream) === state_path ? since : null,
  }));
  const { run } = model;
  if (name === 'run' && run !== null && !rows.some(({ stream }) => stream === run.id))
    rows.unshift({ stream: run.id, path: run.state, since: run.ended_at });
  return rows;
}

/** Shows the states of all machines. */
function light() {
  drawCounts();
  const rows = places();
  setOptions(
    instances(),
    rows.map(({ stream }) => ({ value: stream, text: shortOf(stream) })),
  );
  const run = chosenId();
  if (
    name === 'run' &&
    run !== null &&
    runShown !== run &&
    rows.some(({ stream }) => stream === run)
  ) {
    instances().value = run;
    runShown = run;
  }
  byId('machine-choice').hidden = rows.length < 2;
  const place = rows.find(({ stream }) => stream === instances().value) ?? rows[0] ?? null;
  lightStates(place);
  lightEdge(place);
  tellPlace(place);
}

/** @type {string | null} */
let runShown = null;

function drawCounts() {
  for (const tab of byId('machine-tabs').children) {
    const machine = tab instanceof HTMLElement ? (tab.dataset.machine ?? '') : '';
    const found = (snapshot()?.instances ?? []).filter((instance) => instance.machine === machine);
    const [first] = found;
    const small = tab.querySelector('small');
    if (small !== null)
      say(
        small,
        found.length === 0
          ? 'none'
          : found.length === 1 && first !== undefined
            ? (placeOf(first.stream) ?? first.state_path)
            : `${found.length} live`,
      );
  }
}

/**
 * @param {string} outer
 * @param {string | null | undefined} path
 */
function isAround(outer, path) {
  const machine = machineOf(name);
  return machine !== undefined && path != null && holds(machine, outer, path);
}

/** @param {Place | null} place */
function lightStates(place) {
  const svg = byId('diagram').querySelector('svg');
  for (const part of svg?.querySelectorAll('[data-part^="state:"]') ?? []) {
    const path = /** @type {SVGElement} */ (part).dataset.part?.slice('state:'.length) ?? '';
    const isHere = place?.path === path;
    if (isHere && !part.classList.contains('here'))
      requestAnimationFrame(() => bringIntoView(part));
    part.classList.toggle('here', isHere);
    part.classList.toggle('around', !isHere && isAround(path, place?.path));
  }
  svg?.setAttribute('role', 'img');
  svg?.setAttribute(
    'aria-label',
    `The ${name} machine${place?.path == null ? '' : `, now in ${place.path}`}`,
  );
}

/**
 * The last edge stays lit. The latest step flashes: its edge, or its state when the event changed
 * none.
 * @param {Place | null} place
 */
function lightEdge(place) {
  const last = place === null ? null : lastStep(place.stream);
  const by = place === null || isMove(last) ? last : (recordedMove(place.stream) ?? last);
  const edge = by === null ? '' : edgeOf(by);
  const svg = byId('diagram').querySelector('svg');
  for (const part of svg?.querySelectorAll('.edge') ?? [])
    part.classList.toggle('taken', /** @type {SVGElement} */ (part).dataset.part === edge);
  const key = `${place?.stream} ${last?.seq ?? by?.seq} ${edge}`;
  if (key === flashed || by === null) return;
  flashed = key;
  const part =
    (last === null || isMove(last) ? svg?.querySelector('.edge.taken') : null) ??
    svg?.querySelector('.here');
  if (part == null) return;
  part.classList.remove('flash');
  requestAnimationFrame(() => part.classList.add('flash'));
  setTimeout(() => part.classList.remove('flash'), FLASH_MS);
}

/**
 * True if the step is known to change the state.
 * @param {import('./walk.js').Step | null} step
 */
function isMove(step) {
  return step !== null && step.from !== null && step.to !== null && step.from !== step.to;
}

/**
 * The last step of the chosen run, by its events.
 * @param {string} stream
 * @returns {import('./walk.js').Step | null}
 */
function recordedMove(stream) {
  const { why } = model;
  if (why?.run_id !== stream) return null;
  const events = why.events.filter(({ seq }) => seq <= (at() ?? model.last_seq));
  const index = events.findLastIndex(
    ({ state_path }, i) => i > 0 && state_path !== events[i - 1]?.state_path,
  );
  const [before, last] = [events[index - 1], events[index]];
  return before === undefined || last === undefined
    ? null
    : {
        machine: 'run',
        stream,
        event: last.type,
        from: before.state_path,
        to: last.state_path,
        seq: last.seq,
      };
}

/**
 * The name of a step's edge. Empty if it is unknown, or if the state did not change.
 * @param {import('./walk.js').Step} step
 */
function edgeOf({ machine, event, from, to }) {
  const shape = machineOf(machine);
  if (shape === undefined || to === null) return '';
  const asked =
    from === null
      ? shape.transitions.filter((one) => one.event === event)
      : transitionsFor(shape, from, event);
  const taken = asked.filter((one) => entered(shape, one.target) === to);
  const sources = new Set(taken.map(({ source }) => source));
  const [first] = taken;
  return first === undefined || (from === null && sources.size > 1)
    ? ''
    : `edge:${first.source}|${first.event}|${first.target}`;
}

/**
 * The same in words, for screen readers.
 * @param {Place | null} place
 */
function tellPlace(place) {
  const machine = machineOf(name);
  const text = byId('machine-text');
  if (machine === undefined || place?.path == null)
    return say(text, at() === null ? `No ${name} is alive.` : `No ${name} was alive then.`);
  const ways = leaving(machine, place.path).map(
    ({ event, guard, target }) =>
      `${event.replace(`${name}.`, '')}${guard === null ? '' : ` [${guard}]`} → ${target}`,
  );
  const since = place.since === null ? '' : ` since ${clock(place.since)}`;
  const out =
    ways.length === 0
      ? 'Nothing leads on: it is over.'
      : `Leads on: ${[...new Set(ways)].join(' · ')}`;
  const said = `${place.path}${since}. ${out}`;
  if (text.dataset.said === said) return;
  text.dataset.said = said;
  text.replaceChildren(chip(place.path, paintOf(name, place.path)), `${since}. ${out}`);
}

/** As wide as the page, but never too small to read. Or the whole diagram. */
function fit() {
  const box = byId('diagram');
  const svg = box.querySelector('svg');
  if (svg === null) return;
  const { width } = svg.viewBox.baseVal;
  const room = box.clientWidth - 2;
  const whole = byId('machine-zoom').getAttribute('aria-pressed') === 'true';
  svg.style.width = `${whole ? room : Math.min(width * 1.34, Math.max(room, width * 1.05))}px`;
  const here = svg.querySelector('.here');
  if (here !== null) bringIntoView(here);
}

/** Scrolls the box, never the page. @param {Element} part */
function bringIntoView(part) {
  const box = byId('diagram');
  const [inner, outer] = [part.getBoundingClientRect(), box.getBoundingClientRect()];
  box.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
  box.scrollTop += inner.top + inner.height / 2 - outer.top - outer.height / 2;
}

/** Without its boot. @param {string} stream */
function shortOf(stream) {
  return stream.replace(/:boot_\w+(:\d+)?$/, '').replace(/^(run|pull)_\w+(?=\w{8}$)/, '$1 …');
}
