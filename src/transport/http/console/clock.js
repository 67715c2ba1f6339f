// @ts-check

const TIME = new Intl.DateTimeFormat('en-GB', {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
});
const DAY = new Intl.DateTimeFormat('en-CA', { year: 'numeric', month: '2-digit', day: '2-digit' });

/**
 * The time of day here, to the millisecond.
 * @param {string} at
 */
export function clock(at) {
  return TIME.format(new Date(at));
}

/**
 * The same, with the day where that is not today.
 * @param {string} at
 */
export function moment(at) {
  const day = DAY.format(new Date(at));
  return day === DAY.format(new Date()) ? clock(at) : `${day} ${clock(at)}`;
}

/**
 * A length of time in the unit that fits it.
 * @param {number} ms
 */
export function lasting(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1000)} s`;
  const hours = Math.floor(ms / 3_600_000);
  return hours < 48
    ? `${hours} h ${Math.floor((ms % 3_600_000) / 60_000)} min`
    : `${Math.floor(hours / 24)} days`;
}

/**
 * From one time to another.
 * @param {string} from
 * @param {string} [to] now, unless it is given
 */
export function since(from, to) {
  return lasting((to === undefined ? Date.now() : Date.parse(to)) - Date.parse(from));
}
