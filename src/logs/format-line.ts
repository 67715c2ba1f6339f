import { readLine } from './filter.ts';
import { oneLine } from './plain.ts';
import { indentBelow, WordWrap } from './word-wrap.ts';

export interface LineForm {
  /** Paints the parts of a line. */
  colour: boolean;
  /**
   * Columns of a screen, for a person who reads from top to bottom: times without their date,
   * separators, and lines that are broken between words. Null: elsewhere.
   */
  columns: (() => number) | null;
}

/**
 * Turns log lines into text for a reader: time, level, message, the rest as name=value. It owns the
 * day and the boot of the line before.
 *
 * 1. On a screen a separator says where the day changes, and where a daemon starts. Elsewhere each
 *    line has its date, so that a filter keeps it.
 * 2. An error is shown by its message, once. JSON has its stack.
 * 3. Text that is not a log line is kept.
 */
export function createLineFormat({ colour, columns }: LineForm): (line: string) => string {
  const paint = colour ? applyStyle : (_: Style, text: string) => text;
  const screen = columns !== null;
  let today = new Date().toDateString();
  let boot = '';
  const separators = (at: Date, boot_id: string) => {
    const isValid = !Number.isNaN(at.getTime());
    const day = isValid && at.toDateString() !== today ? [dateOf(at)] : [];
    // Ids sort by time: lines of an older boot that is still alive do not mark a new start.
    const start = boot !== '' && boot_id > boot ? ['a new start'] : [];
    if (isValid) today = at.toDateString();
    if (boot_id > boot) boot = boot_id;
    const words = [...day, ...start].join(', ');
    return words === '' ? '' : `${paint('dim', `---- ${words} ----`)}\n`;
  };
  return (line) => {
    const fields = readLine(line);
    if (fields === null) return oneLine(line);
    const at = new Date(typeof fields.time === 'number' ? fields.time : String(fields.time));
    const level = String(fields.level ?? '');
    const msg = oneLine(String(fields.msg ?? ''));
    const label = paint(COLOURS[level] ?? 'dim', oneLine(level).toUpperCase().padEnd(LABEL));
    const time = timeOf(at, screen);
    const indent = time.length + LABEL + 2;
    const tail = Object.entries(fields)
      .filter(([name, value]) => isShown(name, value, msg))
      .map(([name, value]) => `${name}=${valueText(value)}`)
      .join(' ');
    const before = screen ? separators(at, String(fields.boot_id ?? '')) : '';
    const wrap = columns === null ? null : new WordWrap(() => columns() - indent);
    const shown = (text: string) => (wrap === null ? text : wrap.add(text) + wrap.end());
    const message = shown(msg);
    const rest = tail === '' ? '' : paint('dim', shown(` ${oneLine(tail)}`));
    return `${before}${time} ${label} ${indentBelow(message + rest, indent)}`;
  };
}

/** Columns of the level of a line. */
const LABEL = 5;

type Style = 'dim' | 'green' | 'yellow' | 'red';

const COLOURS: Readonly<Record<string, Style>> = {
  trace: 'dim',
  debug: 'dim',
  info: 'green',
  warn: 'yellow',
  error: 'red',
  fatal: 'red',
};

/** Fields that the line shows already, or that are the same in every line. */
const LEFT_OUT = new Set(['level', 'time', 'msg', 'pid', 'hostname', 'boot_id', 'v']);

/** Says nothing again: no empty field, no id and no error that the message has. */
function isShown(name: string, value: unknown, msg: string): boolean {
  if (LEFT_OUT.has(name) || value === null) return false;
  if (name === 'run_id') return !msg.includes(String(value));
  return messageOf(value) === null || !msg.includes(oneLine(messageOf(value) ?? ''));
}

/** The message of an error; null if the value is not an error. */
function messageOf(value: unknown): string | null {
  return typeof value === 'object' && value !== null && 'stack' in value && 'message' in value
    ? String(value.message)
    : null;
}

function valueText(value: unknown): string {
  if (typeof value === 'string') return value;
  const message = messageOf(value);
  // Counts by kind read better without quotes.
  return message === null ? JSON.stringify(value).replaceAll('"', '') : JSON.stringify(message);
}

/** Local time of day with milliseconds; after its date, unless a separator says that. */
function timeOf(at: Date, screen: boolean): string {
  if (Number.isNaN(at.getTime())) return '--:--:--.---';
  const parts = [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => digits(part));
  const time = `${parts.join(':')}.${digits(at.getMilliseconds(), 3)}`;
  return screen ? time : `${dateOf(at)} ${time}`;
}

function dateOf(at: Date): string {
  return `${at.getFullYear()}-${digits(at.getMonth() + 1)}-${digits(at.getDate())}`;
}

function digits(value: number, width = 2): string {
  return String(value).padStart(width, '0');
}

function applyStyle(style: Style, text: string): string {
  return process.getBuiltinModule('node:util').styleText(style, text, { validateStream: false });
}
