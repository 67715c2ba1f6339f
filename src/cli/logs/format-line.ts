import { readLine } from '../../logs/filter.ts';
import { oneLine } from '../../logs/plain.ts';
import { shortTime } from '../print/format.ts';
import { paint } from '../print/output.ts';

const COLOURS: Record<string, Parameters<typeof paint>[0]> = {
  trace: 'dim',
  debug: 'dim',
  info: 'green',
  warn: 'yellow',
  error: 'red',
  fatal: 'red',
};
/** Fields that the line shows already, or that are the same in every line. */
const LEFT_OUT = new Set(['level', 'time', 'msg', 'pid', 'hostname', 'boot_id', 'v']);

/** A log line for a reader: time, level, message, the rest as name=value. Other text is kept. */
export function formatLine(line: string, fd: 1 | 2 = 1): string {
  const fields = readLine(line);
  if (fields === null) return oneLine(line);
  const level = String(fields.level ?? '');
  const rest = Object.entries(fields).filter(([name]) => !LEFT_OUT.has(name));
  const tail = rest.map(([name, value]) => `${name}=${shown(value)}`).join(' ');
  const label = paint(COLOURS[level] ?? 'dim', oneLine(level).toUpperCase().padEnd(5), fd);
  const head = `${shortTime(toDate(fields.time))} ${label} ${oneLine(String(fields.msg ?? ''))}`;
  return tail === '' ? head : `${head} ${paint('dim', oneLine(tail), fd)}`;
}

/** An error is shown as its message; --json shows its stack. */
function shown(value: unknown): string {
  if (typeof value === 'object' && value !== null && 'stack' in value && 'message' in value)
    return JSON.stringify(value.message);
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function toDate(value: unknown): Date {
  return new Date(typeof value === 'number' ? value : String(value));
}
