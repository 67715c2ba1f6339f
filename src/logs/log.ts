import { type Logger, pino } from 'pino';
import type { LogLevel } from '../config/settings.ts';
import type { Limits } from '../limits.ts';
import { redactor } from '../pattern.ts';
import { readLine } from './filter.ts';
import { createLineFormat } from './format-line.ts';
import { LogHub } from './hub.ts';
import { RotatingFile } from './rotating-file.ts';
import { terminalColumns } from './width.ts';

export interface LogOptions {
  folder: string;
  level: LogLevel;
  limits: Limits;
  boot_id: string;
  /** The form of the copy on stdout. */
  stdout: 'none' | 'json' | 'pretty';
  /**
   * Patterns of `history.redact`. They apply here too, because error messages quote prompts and
   * answers.
   */
  redact?: readonly string[];
}

export interface DaemonLog {
  log: Logger;
  /** Sends each line to its followers. */
  hub: LogHub;
  /** Later lines are dropped. */
  close(): void;
}

/**
 * The daemon's log: one JSON object a line, to the files, the followers and stdout.
 *
 * Each line is in the file before the call returns: no worker and no buffer come between.
 * The last line before a crash is therefore on disk.
 */
export function createLog(options: LogOptions): DaemonLog {
  const { level, limits, boot_id, redact = [] } = options;
  const hub = new LogHub(limits);
  const streams = multistream([logFiles(options), hub, ...stdoutOf(options)]);
  const lineBytes = Math.min(limits.log_line_bytes, limits.log_file_bytes) - 1;
  const redacted = redactor(redact);
  const write = (text: string) => {
    const line = redact.length === 0 ? text.trimEnd() : redactLine(text, redacted);
    streams.write(cutLine(scrub(line), lineBytes));
  };
  const log = pino(
    {
      level,
      base: { boot_id },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }), log: toLoggable },
      serializers: { err: (error: unknown) => error },
    },
    { write },
  );
  return { log, hub, close: () => streams.close() };
}

function logFiles({ folder, limits, boot_id }: LogOptions): RotatingFile {
  return new RotatingFile({
    folder,
    file_bytes: limits.log_file_bytes,
    files: limits.log_files,
    lostLine: (lost_lines, reason) =>
      ownLine(boot_id, { level: 'error', lost_lines, reason, msg: LOST }),
  });
}

function stdoutOf({ stdout, limits, boot_id }: LogOptions): Printer[] {
  if (stdout === 'none') return [];
  const missedLine = (missed: number) => ownLine(boot_id, { level: 'warn', missed, msg: MISSED });
  return [new Printer({ form: stdout, linesMax: limits.log_follow_lines, missedLine })];
}

const LOST = 'Log lines were lost: the log could not be written.';
const MISSED =
  'Lines came faster than they were read, and are left out here; the log files have them.';

interface OwnLine {
  level: LogLevel;
  msg: string;
  [field: string]: unknown;
}

/** A line about the log itself. */
function ownLine(boot_id: string, { level, ...fields }: OwnLine): string {
  return JSON.stringify({ level, time: new Date().toISOString(), boot_id, ...fields });
}

/** A place where log lines go. A line has no newline at its end. */
export interface LogStream {
  /** Never waits and never throws. */
  write(line: string): void;
  /** Releases files and followers. */
  close(): void;
}

/** Writes each line to all streams, in their order. */
function multistream(streams: readonly LogStream[]): LogStream {
  return {
    write(line) {
      for (const stream of streams) stream.write(line);
    },
    close() {
      for (const stream of streams) stream.close();
    },
  };
}

/**
 * Cuts a line to at most `max` bytes, still JSON. Fields keep their order, those that identify
 * the line first.
 * A text that is too long ends in `…`. Other fields without room are left out. `cut_bytes` is the
 * old length.
 */
export function cutLine(line: string, max: number): string {
  const bytes = Buffer.byteLength(line);
  if (bytes <= max) return line;
  const fields = readLine(line) ?? {};
  const names = [
    ...FIRST.filter((name) => name in fields),
    ...Object.keys(fields).filter((name) => !FIRST.includes(name)),
  ];
  let kept = `{"cut_bytes":${bytes}`;
  for (const name of names) {
    const head = `,${JSON.stringify(name)}:`;
    const value = fit(fields[name], max - Buffer.byteLength(kept) - Buffer.byteLength(head) - 1);
    if (value !== null) kept += head + value;
  }
  return `${kept}}`;
}

const FIRST = ['level', 'time', 'boot_id', 'run_id', 'seq', 'msg'];

/** The value as JSON of at most `room` bytes; null if it does not fit. */
function fit(value: unknown, room: number): string | null {
  const whole = JSON.stringify(value);
  if (Buffer.byteLength(whole) <= room) return whole;
  if (typeof value !== 'string' || room < SHORTEST) return null;
  for (let length = value.length; length > 0; ) {
    const text = JSON.stringify(`${value.slice(0, length)}…`);
    const bytes = Buffer.byteLength(text);
    if (bytes <= room) return text;
    length = Math.min(length - 1, Math.floor((length * room) / bytes));
  }
  return null;
}

/** A shorter text says nothing. */
const SHORTEST = 16;

/**
 * The fields that a log line may have: no secrets, no throwing getters, bounded size.
 * Secrets are found by field name, and in texts by their form.
 */
function toLoggable(fields: object): Record<string, unknown> {
  const plain = copy(fields, 0, { values: VALUES_MAX }) as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(plain).map(([name, value]) => [RESERVED.has(name) ? `${name}_` : name, value]),
  );
}

/** Hides apparent secrets in a text, or in a line of JSON. */
function scrub(text: string): string {
  return SECRET_HINT.test(text)
    ? SECRET_FORMS.reduce((rest, [form, shown]) => rest.replace(form, shown), text)
    : text;
}

/** Applies `redact` to the texts of a line, at any depth, except ids and names of errors. */
function redactLine(line: string, redact: (text: string) => string): string {
  const whole = readLine(line);
  return whole === null
    ? redact(line)
    : JSON.stringify(whole, (name, value) =>
        typeof value === 'string' && !NAMES.has(name) ? redact(value) : value,
      );
}

const NAMES = new Set(['level', 'time', 'boot_id', 'run_id', 'stream', 'code', 'type']);
const HIDDEN = '[hidden]';
const DEPTH_MAX = 6;
const ENTRIES_MAX = 100;
/** Values of one line, at all depths. */
const VALUES_MAX = 1000;

/** Fields that every line has. */
const RESERVED = new Set(['level', 'time', 'boot_id']);
const SECRET_NAME =
  /^(proxy-)?authorization$|^(set-)?cookie$|^key$|passw|secret|(^|[_-])api[_-]?key|(^|[_-])(access|auth|bearer|refresh)?[_-]?token$/i;
const SECRET_HINT = /bearer|x-api-key|[sg]k-|:\/\/[^/]*@|key=|token=/i;
const SECRET_FORMS: [RegExp, string][] = [
  [/\b(Bearer\s+)[\w.~+/=-]{6,}/gi, `$1${HIDDEN}`],
  [/(x-api-key["']?\s*[:=]\s*["']?)[^\s"',]+/gi, `$1${HIDDEN}`],
  [/\b[sg]k-[\w-]{8,}/g, HIDDEN],
  [/(:\/\/)[^/\s"'\\@]+@/g, `$1${HIDDEN}@`],
  [/([?&\s](?:api_?key|key|access_token|token)=)[^&\s"'\\]+/gi, `$1${HIDDEN}`],
];

function copy(value: unknown, depth: number, left: { values: number }): unknown {
  if (typeof value === 'bigint') return String(value);
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Error) return describe(value, depth, left);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof URL) return value.href;
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (depth >= DEPTH_MAX || --left.values < 0) return '[more]';
  if (Array.isArray(value))
    return value.slice(0, ENTRIES_MAX).map((item) => copy(item, depth + 1, left));
  const names = Object.keys(value).slice(0, ENTRIES_MAX);
  return Object.fromEntries(
    names.map((name) => [
      name,
      SECRET_NAME.test(name) ? HIDDEN : copy(read(value, name), depth + 1, left),
    ]),
  );
}

/**
 * Copies only the readable parts of an error. Other properties may contain requests, prompts and
 * keys.
 */
function describe(error: Error, depth: number, left: { values: number }): Record<string, unknown> {
  const { code } = error as NodeJS.ErrnoException;
  return {
    type: error.name,
    ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
    message: error.message,
    ...(typeof error.stack === 'string' ? { stack: error.stack } : {}),
    ...(error.cause === undefined || depth >= DEPTH_MAX
      ? {}
      : { cause: copy(error.cause, depth + 1, left) }),
  };
}

function read(value: object, name: string): unknown {
  try {
    return (value as Record<string, unknown>)[name];
  } catch {
    return '[unreadable]';
  }
}

interface PrinterOptions {
  form: 'json' | 'pretty';
  /** Lines that wait while stdout is not read; more are left out. */
  linesMax: number;
  /** The line that counts the lines left out. */
  missedLine(missed: number): string;
}

/**
 * Prints log lines to stdout.
 *
 * 1. A reader that stops reading costs at most `linesMax` lines of memory.
 * 2. When it reads again, it gets the number of lines that it missed, in their place.
 */
class Printer implements LogStream {
  private readonly options: PrinterOptions;
  private readonly format: (line: string) => string;
  private isOpen = true;
  private waiting = 0;
  private missed = 0;

  constructor(options: PrinterOptions) {
    this.options = options;
    this.format = options.form === 'json' ? (line) => `${line}\n` : createPersonFormat();
    process.stdout.on('error', () => {
      this.isOpen = false;
    });
  }

  write(line: string): void {
    if (!this.isOpen) return;
    // The callback of a line that went out at once comes later: such a line does not wait.
    const isFull = this.waiting >= this.options.linesMax && process.stdout.writableLength > 0;
    if (this.missed > 0 || isFull) this.missed += 1;
    else this.print(line);
  }

  close(): void {}

  private print(line: string): void {
    this.waiting += 1;
    process.stdout.write(this.format(line), () => this.noteTaken());
  }

  private noteTaken(): void {
    this.waiting -= 1;
    if (!this.isOpen || this.waiting > 0 || this.missed === 0) return;
    this.print(this.options.missedLine(this.missed));
    this.missed = 0;
  }
}

/** As `svc logs` shows the line. */
function createPersonFormat(): (line: string) => string {
  const { stdout } = process;
  const colour = stdout.isTTY === true && !process.env.NO_COLOR;
  const columns = stdout.isTTY === true ? () => terminalColumns(stdout) : null;
  const form = createLineFormat({ colour, columns });
  return (line) => `${form(line)}\n`;
}
