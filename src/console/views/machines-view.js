// @ts-check
import { FLASH_MS, INSTANCES_SHOWN } from '../bounds.js';
import { clock } from '../parts/clock.js';
import { byId, chip, el, say, setOptions } from '../parts/dom.js';
import { bringIntoView, mountZoom, resize } from '../parts/zoom.js';
import { go, place } from '../state/address.js';
import { chosenId } from '../state/chosen-run.js';
import { edgeOf, isMove, recordedMove } from '../state/edges.js';
import { model, on, snapshot } from '../state/model.js';
import { edgesFrom, holds, machineOf } from '../state/shape.js';
import { toneOf, wordsOf } from '../state/tone.js';
import { at } from '../state/travel.js';
import { lastStep, placeOf } from '../state/walk.js';

/**
 * The machines as diagrams. The present state is lit, and its last edge flashes.
 *
 * @typedef {{ stream: string, path: string | null, since: string | null }} Place
 */
export function mountMachines() {
  instances().addEventListener('change', light);
  mountZoom(resize);
  new ResizeObserver(fit).observe(byId('diagram'));
  on(['machines'], drawTabs);
  on(['machines', 'snapshot', 'run', 'walk'], light);
}

let name = 'daemon';
/** The last step that flashed, so that it flashes once. */
let flashed = '';

const instances = () => /** @type {HTMLSelectElement} */ (byId('machine-instance'));

/** @param {string} wanted */
export function showMachineOf(wanted) {
  if (wanted !== name) void choose(wanted);
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
          click: () => {
            if (place().page === 'machines') go('machines', machine.name);
            else void choose(machine.name);
          },
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
  const here = rows.find(({ stream }) => stream === instances().value) ?? rows[0] ?? null;
  lightStates(here);
  lightEdge(here);
  tellPlace(here);
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

/** @param {Place | null} here */
function lightStates(here) {
  const svg = byId('diagram').querySelector('svg');
  for (const part of svg?.querySelectorAll('[data-part^="state:"]') ?? []) {
    const path = /** @type {SVGElement} */ (part).dataset.part?.slice('state:'.length) ?? '';
    const isHere = here?.path === path;
    if (isHere && !part.classList.contains('here'))
      requestAnimationFrame(() => bringIntoView(part));
    part.classList.add(`is-${toneOf(name, path)}`);
    part.classList.toggle('here', isHere);
    part.classList.toggle('around', !isHere && isAround(path, here?.path));
  }
  svg?.setAttribute('role', 'img');
  svg?.setAttribute(
    'aria-label',
    `The ${name} machine${here?.path == null ? '' : `, now in ${here.path}`}`,
  );
}

/**
 * The last edge stays lit. The latest step flashes: its edge, or its state when the event changed
 * none.
 * @param {Place | null} here
 */
function lightEdge(here) {
  const last = here === null ? null : lastStep(here.stream);
  const by = here === null || isMove(last) ? last : (recordedMove(here.stream) ?? last);
  const edge = by === null ? '' : edgeOf(by);
  // Where several events continue in the same way, the picture has one arrow to their choice.
  const choice = edge.replace(/[^|]*$/, 'choice');
  const svg = byId('diagram').querySelector('svg');
  for (const part of svg?.querySelectorAll('.edge') ?? [])
    part.classList.toggle(
      'taken',
      [edge, choice].includes(/** @type {SVGElement} */ (part).dataset.part ?? ''),
    );
  const key = `${here?.stream} ${last?.seq ?? by?.seq} ${edge}`;
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
 * The same in words, for screen readers.
 * @param {Place | null} here
 */
function tellPlace(here) {
  const machine = machineOf(name);
  const text = byId('machine-text');
  byId('machine-ways').hidden = machine === undefined || here?.path == null;
  if (machine === undefined || here?.path == null) {
    text.dataset.said = '';
    return say(text, at() === null ? `No ${name} is alive.` : `No ${name} was alive then.`);
  }
  const since = here.since === null ? '' : ` since ${clock(here.since)}`;
  const ways = edgesFrom(machine, here.path).map(
    ({ event, guard, target }) =>
      `${event.replace(`${name}.`, '')}${guard === null ? '' : ` [${guard}]`} → ${target}`,
  );
  const out = ways.length === 0 ? ' Nothing changes it any more.' : '';
  const line = `${here.path}${since}. ${wordsOf(name, here.path)}${out}`;
  if (text.dataset.said === line) return;
  text.dataset.said = line;
  text.replaceChildren(chip(name, here.path), `${since}. ${wordsOf(name, here.path)}${out}`);
  byId('machine-ways').hidden = ways.length === 0;
  byId('machine-ways-list').replaceChildren(
    ...[...new Set(ways)].map((way) => el('li', {}, el('code', {}, way))),
  );
}

/** The present state is in view, whatever the size of the window. */
function fit() {
  resize();
  const here = byId('diagram').querySelector('.here');
  if (here !== null) bringIntoView(here);
}

/** Without its boot. @param {string} stream */
function shortOf(stream) {
  return stream.replace(/:boot_\w+(:\d+)?$/, '').replace(/^(run|pull)_\w+(?=\w{8}$)/, '$1 …');
}

import { DIAGRAM_CHARACTERS } from '../bounds.js';
import { askText } from '../daemon/api.js';

/** The elements and attributes of a drawing. Everything else in a file is left out. */
const SHAPES = new Set([
  'svg',
  'g',
  'path',
  'polygon',
  'polyline',
  'ellipse',
  'circle',
  'rect',
  'line',
  'text',
  'tspan',
]);
const ATTRIBUTES = new Set(
  'viewBox d points x y x1 x2 y1 y2 cx cy r rx ry width height transform fill stroke stroke-width stroke-dasharray text-anchor font-family font-size font-weight font-style class'.split(
    ' ',
  ),
);
/** A line of the legend of fills. */
const LEGEND = /^■ /;
const SVG = 'http://www.w3.org/2000/svg';

/** @type {Map<string, Promise<SVGSVGElement>>} */
const drawn = new Map();

/**
 * The diagram of a machine as a part of this page. Its ids become `data-part` here.
 * @param {string} name
 * @returns {Promise<SVGSVGElement>}
 */
async function diagramOf(name) {
  const known =
    drawn.get(name) ?? askText(`/v1/machines/${encodeURIComponent(name)}/diagram`).then(parse);
  drawn.set(name, known);
  known.catch(() => drawn.delete(name));
  return known;
}

/**
 * @param {string} text
 * @returns {SVGSVGElement}
 */
function parse(text) {
  const { documentElement } = new DOMParser().parseFromString(
    text.slice(0, DIAGRAM_CHARACTERS),
    'image/svg+xml',
  );
  if (documentElement.namespaceURI !== SVG || documentElement.localName !== 'svg')
    throw new Error('This is not a diagram.');
  return /** @type {SVGSVGElement} */ (copy(documentElement));
}

/** @param {Element} source */
function copy(source) {
  const target = document.createElementNS(SVG, source.localName);
  for (const { name, value } of source.attributes)
    if (ATTRIBUTES.has(name) && !/url\s*\(/i.test(value)) target.setAttribute(name, value);
  if (source.id !== '') target.dataset.part = source.id;
  for (const child of source.childNodes) {
    // The page paints a state by its meaning, and has a legend for that.
    if (child instanceof Element && LEGEND.test(child.textContent ?? '')) continue;
    if (child instanceof Element && child.namespaceURI === SVG && SHAPES.has(child.localName))
      target.append(copy(child));
    else if (child instanceof Text && (source.localName === 'text' || source.localName === 'tspan'))
      target.append(child.data);
  }
  return target;
}
