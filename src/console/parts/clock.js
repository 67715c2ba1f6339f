// @ts-check

const TIME = new Intl.DateTimeFormat('en-GB', {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
});
const DAY = new Intl.DateTimeFormat('en-CA', { year: 'numeric', month: '2-digit', day: '2-digit' });

/** Characters of a time of day to this unit. */
const LENGTHS = { minute: 5, second: 8, millisecond: 12 };

/**
 * The local time of day, to the millisecond.
 * @param {string} at
 */
export function clock(at) {
  return TIME.format(new Date(at));
}

/**
 * The same, with the day unless it is today, to this unit.
 * @param {string} at
 * @param {{ to?: keyof typeof LENGTHS }} [options]
 */
export function formatTime(at, { to = 'millisecond' } = {}) {
  const day = DAY.format(new Date(at));
  const time = clock(at).slice(0, LENGTHS[to]);
  return day === DAY.format(new Date()) ? time : `${day} ${time}`;
}

/**
 * A duration in a fitting unit.
 * @param {number} ms
 */
export function formatDuration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1000)} s`;
  const hours = Math.floor(ms / 3_600_000);
  return hours < 48
    ? `${hours} h ${Math.floor((ms % 3_600_000) / 60_000)} min`
    : `${Math.floor(hours / 24)} days`;
}

/**
 * The duration between two times.
 * @param {string} from
 * @param {string} [to] now by default
 */
export function since(from, to) {
  return formatDuration((to === undefined ? Date.now() : Date.parse(to)) - Date.parse(from));
}
