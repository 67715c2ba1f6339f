import { type Logger, pino } from 'pino';
import type { LogLevel } from '../config/settings.ts';
import type { Limits } from '../limits.ts';
import { redactor } from '../pattern.ts';
import { cutLine } from './cut-line.ts';
import { LogHub } from './hub.ts';
import { Printer } from './printer.ts';
import { RotatingFile } from './rotating-file.ts';
import { redactLine, scrub, toLoggable } from './scrub.ts';

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
