// @ts-check
import { el, svg } from './dom.js';

/**
 * A small chart: a heading, the latest value in large figures, and bars or a line over time.
 *
 * @typedef {{ at: number, value: number }} Point
 * @typedef {{ title: string, kind: 'bars' | 'line', points: readonly Point[], from: number, to:
 * number, step?: number, now: string, format: (value: number) => string, note: string }} Chart
 */

const WIDTH = 300;
const HEIGHT = 64;

/**
 * @param {Element} box
 * @param {Chart} chart
 */
export function drawChart(box, { title, kind, points, from, to, step, now, format, note }) {
  const inside = points.filter(({ at }) => at >= from && at <= to);
  const top = Math.max(...inside.map(({ value }) => value), Number.MIN_VALUE);
  const x = (/** @type {number} */ at) => ((at - from) / Math.max(1, to - from)) * WIDTH;
  const y = (/** @type {number} */ value) => HEIGHT - (value / top) * (HEIGHT - 2);
  const shapes = kind === 'bars' ? bars(inside, x, y, step ?? 0) : line(inside, x, y);
  const empty = inside.length === 0 || inside.every(({ value }) => value === 0);
  const said = empty ? `${title}: nothing yet.` : `${title}: now ${now}, at most ${format(top)}.`;
  box.replaceChildren(
    el('h3', {}, title),
    el('p', { class: 'figure num' }, now),
    svg(
      'svg',
      {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        preserveAspectRatio: 'none',
        role: 'img',
        'aria-label': said,
      },
      ...shapes,
    ),
    el(
      'p',
      { class: 'faint ends' },
      el('span', {}, note),
      el('span', { class: 'num' }, empty ? 'nothing yet' : `most ${format(top)}`),
    ),
  );
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
    return [svg('rect', { x: x(first.at) - 2, y: y(first.value), width: 4, height: 4 })];
  const area = [`${x(first.at)},${HEIGHT}`, ...places, `${x(last.at)},${HEIGHT}`].join(' ');
  return [
    svg('polygon', { points: area, class: 'area' }),
    svg('polyline', { points: places.join(' ') }),
  ];
}
