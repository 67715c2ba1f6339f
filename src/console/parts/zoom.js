// @ts-check
import { byId } from './dom.js';

/**
 * The size of a drawing in its box, which scrolls: by its bars, by touch, by keys and by dragging.
 *
 * 1. At first the texts are readable, and a drawing that fits is shown whole.
 * 2. Scrolling moves the box, never the page.
 */

/** The smallest readable font size, in units of the drawing: pixels at a scale of 1. */
const READABLE = 1;
const LARGEST = 4;
const STEP = 1.25;
/** A drawing that fits is not made larger than this. */
const COMFORTABLE = 1.34;

/**
 * Pixels for each unit. `usual` is readable, `all` shows the whole.
 * @type {number | 'usual' | 'all'}
 */
let scale = 'usual';

const box = () => byId('diagram');

/** @param {() => void} redraw */
export function mountZoom(redraw) {
  const set = (/** @type {typeof scale} */ wanted) => {
    scale = wanted;
    byId('zoom-fit').setAttribute('aria-pressed', String(scale === 'all'));
    redraw();
  };
  const acts = {
    '+': () => set(Math.min(LARGEST, present() * STEP)),
    '-': () => set(Math.max(Math.min(READABLE, fittingScale()) / 2, present() / STEP)),
    0: () => set(scale === 'all' ? 'usual' : 'all'),
  };
  byId('zoom-in').addEventListener('click', acts['+']);
  byId('zoom-out').addEventListener('click', acts['-']);
  byId('zoom-fit').addEventListener('click', acts[0]);
  box().addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || !(event.key in acts)) return;
    event.preventDefault();
    acts[/** @type {keyof typeof acts} */ (event.key)]();
  });
  box().addEventListener(
    'wheel',
    (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      acts[event.deltaY < 0 ? '+' : '-']();
    },
    { passive: false },
  );
  box().addEventListener('pointerdown', drag);
}

function drawing() {
  return box().querySelector('svg');
}

/** The scale at which all of it is in the box. */
function fittingScale() {
  const { width = 1, height = 1 } = drawing()?.viewBox.baseVal ?? {};
  return Math.min((box().clientWidth - 2) / width, (window.innerHeight * 0.7) / height);
}

function present() {
  if (typeof scale === 'number') return scale;
  const whole = fittingScale();
  return scale === 'all'
    ? Math.min(whole, LARGEST)
    : Math.min(COMFORTABLE, Math.max(READABLE, whole));
}

/** Gives the drawing its size. What was in the middle of the box stays there. */
export function resize() {
  const svg = drawing();
  if (svg === null) return;
  const { scrollLeft, scrollTop, clientWidth, clientHeight, scrollWidth, scrollHeight } = box();
  const middle = [
    (scrollLeft + clientWidth / 2) / scrollWidth,
    (scrollTop + clientHeight / 2) / scrollHeight,
  ];
  svg.style.height = 'auto';
  svg.style.width = `${svg.viewBox.baseVal.width * present()}px`;
  const [across = 0, down = 0] = middle;
  box().scrollLeft = across * box().scrollWidth - box().clientWidth / 2;
  box().scrollTop = down * box().scrollHeight - box().clientHeight / 2;
}

/** @param {Element} part */
export function bringIntoView(part) {
  const [inner, outer] = [part.getBoundingClientRect(), box().getBoundingClientRect()];
  box().scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
  box().scrollTop += inner.top + inner.height / 2 - outer.top - outer.height / 2;
}

/** A mouse drags the drawing. A finger scrolls it without that. @param {PointerEvent} event */
function drag(event) {
  if (event.pointerType !== 'mouse' || event.button !== 0) return;
  const from = { x: event.clientX + box().scrollLeft, y: event.clientY + box().scrollTop };
  const ended = new AbortController();
  const { signal } = ended;
  const move = (/** @type {PointerEvent} */ { clientX, clientY }) => {
    box().scrollLeft = from.x - clientX;
    box().scrollTop = from.y - clientY;
  };
  box().setPointerCapture(event.pointerId);
  box().addEventListener('pointermove', move, { signal });
  for (const name of ['pointerup', 'pointercancel'])
    box().addEventListener(name, () => ended.abort(), { signal });
}
