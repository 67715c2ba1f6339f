// @ts-check
import { CHART_MINUTES_MIN, CHART_MS, FIGURE_RUNS } from '../bounds.js';

const MINUTE_MS = 60_000;

/**
 * How many runs began in each minute, of the latest runs.
 *
 * `isCut`: more runs began in the time of the charts than were read. The chart then begins with the
 * oldest run that was read. Its first minute may lack runs, so it is left out. If it is the only
 * minute, `now` says `or more`.
 *
 * @param {readonly Pick<import('../state/model.js').Run, 'created_at'>[]} latest
 * @param {number} to
 */
export function rateOf(latest, to) {
  const oldest = Math.min(to, ...latest.map(({ created_at }) => Date.parse(created_at)));
  const isCut = latest.length >= FIGURE_RUNS && oldest > to - CHART_MS;
  const spanned = Math.ceil((to - Math.max(oldest, to - CHART_MS)) / MINUTE_MS);
  const minutes = Math.max(spanned, isCut ? 1 : CHART_MINUTES_MIN);
  const from = to - minutes * MINUTE_MS;
  const all = Array.from({ length: minutes }, (_, index) => ({
    at: from + index * MINUTE_MS,
    value: 0,
  }));
  for (const { created_at } of latest) {
    const index = Math.floor((Date.parse(created_at) - from) / MINUTE_MS);
    // The latest run may be newer than `to`.
    const point = all[Math.min(index, minutes - 1)];
    if (point !== undefined) point.value += 1;
  }
  const isPart = isCut && minutes === 1;
  const points = isCut && !isPart ? all.slice(1) : all;
  return { from, isCut, points, now: `${points.at(-1)?.value ?? 0}${isPart ? ' or more' : ''}` };
}
