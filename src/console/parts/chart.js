// @ts-check
import { clock } from './clock.js';
import { el, svg } from './dom.js';

/**
 * A small chart: a heading, the latest value in large figures, and bars or a line over time, with
 * numbers on both axes.
 *
 * @typedef {{ at: number, value: number }} Point
 * @typedef {{ title: string, kind: 'bars' | 'line', points: readonly Point[], from: number, to:
 * number, step?: number, now: string, format: (value: number) => string, note: string, unit?:
 * (top: number) => number }} Chart
 */

const WIDTH = 300;
const HEIGHT = 72;
/** Parts of the height that have a line and a number. */
const LINES = [1, 0.5, 0];

/**
 * `unit`: the unit in which the numbers of the axis are round, such as MiB.
 * @param {Element} box
 * @param {Chart} chart
 */
export function drawChart(
  box,
  { title, kind, points, from, to, step, now, format, note, unit = () => 1 },
) {
  const inside = points.filter(({ at }) => at >= from && at <= to);
  const most = Math.max(0, ...inside.map(({ value }) => value));
  const top = ceiling(most, unit(most));
  const x = (/** @type {number} */ at) => ((at - from) / Math.max(1, to - from)) * WIDTH;
  const y = (/** @type {number} */ value) => HEIGHT - (value / top) * HEIGHT;
  const shapes = kind === 'bars' ? bars(inside, x, y, step ?? 0) : line(inside, x, y);
  const empty = most === 0;
  const label = empty ? `${title}: nothing yet.` : `${title}: now ${now}, at most ${format(most)}.`;
  const times = [from, (from + to) / 2].map((at) => clock(new Date(at).toISOString()).slice(0, 5));
  box.replaceChildren(
    el('h3', {}, title),
    el('p', { class: 'figure num' }, now),
    el(
      'div',
      { class: 'plot' },
      el(
        'p',
        { class: 'levels num', 'aria-hidden': 'true' },
        ...LINES.map((part) => el('span', {}, empty && part > 0 ? '' : format(top * part))),
      ),
      svg(
        'svg',
        {
          viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
          preserveAspectRatio: 'none',
          role: 'img',
          'aria-label': label,
        },
        ...LINES.map((part) =>
          svg('line', { x1: 0, x2: WIDTH, y1: y(top * part), y2: y(top * part) }),
        ),
        ...shapes,
      ),
      el(
        'p',
        { class: 'times num', 'aria-hidden': 'true' },
        ...[...times, 'now'].map((text) => el('span', {}, text)),
      ),
    ),
    el('p', { class: 'faint' }, empty ? `${note}: nothing yet` : note),
  );
}

/** The next round number: 1, 2, 4 or 10 of a power of ten of the unit. */
const ROUND = [1, 2, 4, 10];

/**
 * @param {number} most
 * @param {number} unit
 */
function ceiling(most, unit) {
  if (most <= 0) return 1;
  const power = unit * 10 ** Math.floor(Math.log10(most / unit));
  return power * (ROUND.find((round) => most <= power * round) ?? 10);
}

/**
 * @param {readonly Point[]} points
 * @param {(at: number) => number} x
 * @param {(value: number) => number} y
 * @param {number} step
 */
function bars(points, x, y, step) {
  return points
    .filter(({ value }) => value > 0)
    .map(({ at, value }) =>
      svg('rect', {
        x: x(at).toFixed(1),
        y: y(value).toFixed(1),
        width: Math.max(1, x(at + step) - x(at) - 1).toFixed(1),
        height: (HEIGHT - y(value)).toFixed(1),
      }),
    );
}

/**
 * @param {readonly Point[]} points
 * @param {(at: number) => number} x
 * @param {(value: number) => number} y
 */
function line(points, x, y) {
  const places = points.map(({ at, value }) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined) return [];
  if (points.length === 1)
    return [
      svg('rect', {
        x: Math.min(x(first.at), WIDTH - 4),
        y: Math.min(y(first.value), HEIGHT - 4),
        width: 4,
        height: 4,
      }),
    ];
  const area = [`${x(first.at)},${HEIGHT}`, ...places, `${x(last.at)},${HEIGHT}`].join(' ');
  return [
    svg('polygon', { points: area, class: 'area' }),
    svg('polyline', { points: places.join(' ') }),
  ];
}
