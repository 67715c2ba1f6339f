import { readLine } from '../../logs/filter.ts';
import { oneLine } from '../../logs/plain.ts';
import { paint } from '../print/output.ts';

const COLOURS: Record<string, Parameters<typeof paint>[0]> = {
  trace: 'dim',
  debug: 'dim',
  info: 'green',
  warn: 'yellow',
  error: 'red',
  fatal: 'red',
};
/** Said by the line itself, or the same in every line. */
const LEFT_OUT = new Set(['level', 'time', 'msg', 'pid', 'hostname', 'boot_id', 'v']);

/** A log line as a person reads it: time, level, message, and the rest as name=value. What is no log line stays as it is. */
export function formatLine(line: string, fd: 1 | 2 = 1): string {
  const fields = readLine(line);
  if (fields === null) return oneLine(line);
  const level = String(fields.level ?? '');
  const rest = Object.entries(fields).filter(([name]) => !LEFT_OUT.has(name));
  const tail = rest.map(([name, value]) => `${name}=${shown(value)}`).join(' ');
  const head = `${time(fields.time)} ${paint(COLOURS[level] ?? 'dim', oneLine(level).toUpperCase().padEnd(5), fd)} ${oneLine(String(fields.msg ?? ''))}`;
  return tail === '' ? head : `${head} ${paint('dim', oneLine(tail), fd)}`;
}

/** Of an error its message: its stack is in the line itself, which --json shows. */
function shown(value: unknown): string {
  if (typeof value === 'object' && value !== null && 'stack' in value && 'message' in value)
    return JSON.stringify(value.message);
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Local time of day with milliseconds, and the date of lines that are not of today. */
function time(value: unknown): string {
  const at = new Date(typeof value === 'number' ? value : String(value));
  if (Number.isNaN(at.getTime())) return '--:--:--.---';
  const two = (number: number, width = 2) => String(number).padStart(width, '0');
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${two(at.getMilliseconds(), 3)}`;
  const today = at.toDateString() === new Date().toDateString();
  return today
    ? clock
    : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock}`;
}
