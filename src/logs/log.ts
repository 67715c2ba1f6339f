import { createRequire } from 'node:module';
import { type Logger, pino } from 'pino';
import type { LogLevel } from '../config/settings.ts';
import type { Limits } from '../limits.ts';
import { redactor } from '../pattern.ts';
import { cutLine } from './cut.ts';
import { LogHub } from './hub.ts';
import { loggable, redactLine, scrub, shownLine } from './redact.ts';
import { RotatingFile } from './rotating-file.ts';

export interface LogOptions {
  folder: string;
  level: LogLevel;
  limits: Limits;
  boot_id: string;
  /** What goes to stdout besides the files. */
  stdout: 'none' | 'json' | 'pretty';
  /** Patterns of the history: what they match is in no line either, since the messages of errors quote prompts and answers. */
  redact?: readonly string[];
}

export interface DaemonLog {
  log: Logger;
  /** Gives each line to those who follow it. */
  hub: LogHub;
  /** What is logged later is dropped. */
  close(): void;
}

/**
 * The daemon's log: one JSON object a line, on disk before the call returns, then with the followers. No worker and no buffer
 * stand between, so the last line before a crash is there.
 */
export function createLog({
  folder,
  level,
  limits,
  boot_id,
  stdout,
  redact = [],
}: LogOptions): DaemonLog {
  const line_bytes = Math.min(limits.log_line_bytes, limits.log_file_bytes) - 1;
  const hub = new LogHub(limits);
  const lostLine = (lost_lines: number, reason: string) =>
    `${JSON.stringify({ level: 'error', time: new Date().toISOString(), boot_id, lost_lines, reason, msg: 'Log lines were lost: the log could not be written.' })}\n`;
  const file = new RotatingFile({
    folder,
    file_bytes: limits.log_file_bytes,
    files: limits.log_files,
    lostLine,
  });
  const missedLine = (missed: number) =>
    JSON.stringify({ level: 'warn', time: new Date().toISOString(), boot_id, missed, msg: MISSED });
  const print = printer(stdout, limits.log_follow_lines, missedLine);
  const redacted = redactor(redact);
  const write = (text: string) => {
    const whole = redact.length === 0 ? text.trimEnd() : redactLine(text, redacted);
    const line = cutLine(scrub(whole), line_bytes);
    file.write(`${line}\n`);
    hub.publish(line);
    print?.(line);
  };
  const log = pino(
    {
      level,
      base: { boot_id },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }), log: loggable },
      serializers: { err: (error: unknown) => error },
    },
    { write },
  );
  const close = () => {
    hub.close();
    file.close();
  };
  return { log, hub, close };
}

const MISSED =
  'Lines came faster than they were read, and are left out here; the log files have them.';

/** Where stdout is not read, as many lines wait for it as for any slow follower; it is told how many it missed when it has taken those. */
function printer(
  stdout: LogOptions['stdout'],
  lines_max: number,
  missedLine: (missed: number) => string,
): ((line: string) => void) | null {
  if (stdout === 'none') return null;
  let [open, waiting, missed] = [true, 0, 0];
  process.stdout.on('error', () => {
    open = false;
  });
  const form = stdout === 'json' ? (line: string) => `${line}\n` : pretty();
  const print = (line: string) => {
    waiting += 1;
    process.stdout.write(form(line), taken);
  };
  const taken = () => {
    waiting -= 1;
    if (!open || waiting > 0 || missed === 0) return;
    print(missedLine(missed));
    missed = 0;
  };
  return (line) => {
    if (!open) return;
    // A line that went out at once is called back for later: it waits for nobody.
    const isFull = waiting >= lines_max && process.stdout.writableLength > 0;
    if (missed > 0 || isFull) missed += 1;
    else print(line);
  };
}

/** Loaded only where a person looks at the log. */
function pretty(): (line: string) => string {
  const { prettyFactory } = createRequire(import.meta.url)(
    'pino-pretty',
  ) as typeof import('pino-pretty');
  const colorize = process.stdout.isTTY === true && (process.env.NO_COLOR ?? '') === '';
  const format = prettyFactory({
    colorize,
    singleLine: true,
    ignore: 'boot_id',
    translateTime: 'SYS:HH:MM:ss.l',
  }) as (line: string) => string;
  return (line) => format(shownLine(line));
}
