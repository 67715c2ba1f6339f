// @ts-check
import { answererOf } from './answerer.js';
import { formatDuration } from './clock.js';

/**
 * Figures of a run. Null where it has none.
 * @typedef {import('../state/model.js').Run} Run
 */

/** Milliseconds from its start to its first token. @param {Run} run */
export function firstTokenMs({ started_at, first_output_at }) {
  return started_at === null || first_output_at === null
    ? null
    : Date.parse(first_output_at) - Date.parse(started_at);
}

/** Tokens a second, as the daemon reckons it. @param {Run} run */
export function speedOf({ tokens_per_second }) {
  return tokens_per_second ?? null;
}

/** As the command line says it. @param {number} bytes */
export function formatBytes(bytes) {
  const unit = byteUnit(bytes);
  const value = bytes / unit;
  const rounded = unit === 1 || value >= 100 ? Math.round(value) : Math.round(value * 10) / 10;
  return `${rounded} ${UNITS[Math.log2(unit) / 10]}`;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** The unit of so many bytes, in bytes. @param {number} bytes */
export function byteUnit(bytes) {
  return 1024 ** Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
}

/** @param {number} rate */
export function formatSpeed(rate) {
  return `${rate.toFixed(rate < 10 ? 1 : 0)} tokens/s`;
}

/** From its acceptance to its end, without the waits for persons. @param {Run} run */
export function tookMs({ created_at, ended_at, waited_ms = 0 }) {
  return Date.parse(ended_at ?? '') - Date.parse(created_at) - waited_ms;
}

/** The summary of an answer, in a line. @param {Run} run */
export function summaryOf(run) {
  const { usage, ended_at } = run;
  const [first, speed] = [firstTokenMs(run), speedOf(run)];
  return [
    answererOf(run),
    usage.output_tokens === null ? null : `${usage.output_tokens} tokens`,
    speed === null ? null : formatSpeed(speed),
    first === null ? null : `first after ${formatDuration(first)}`,
    ended_at === null ? null : formatDuration(tookMs(run)),
  ]
    .filter((fact) => fact !== null)
    .join(' · ');
}
