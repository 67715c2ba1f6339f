import { createRequire } from 'node:module';
import { type Logger, pino } from 'pino';
import type { LogLevel } from './config.ts';
import type { Limits } from './limits.ts';
import { cutLine } from './logs/cut.ts';
import { LogHub } from './logs/hub.ts';
import { loggable, scrub } from './logs/redact.ts';
import { RotatingFile } from './logs/rotating-file.ts';

export interface LogOptions {
  folder: string;
  level: LogLevel;
  limits: Limits;
  boot_id: string;
  /** What goes to stdout besides the files. */
  stdout: 'none' | 'json' | 'pretty';
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
export function createLog({ folder, level, limits, boot_id, stdout }: LogOptions): DaemonLog {
  const line_bytes = Math.min(limits.log_line_bytes, limits.log_file_bytes) - 1;
  const hub = new LogHub(limits.log_follow_lines);
  const lostLine = (lost_lines: number, reason: string) =>
    `${JSON.stringify({ level: 'error', time: new Date().toISOString(), boot_id, lost_lines, reason, msg: 'Log lines were lost: the log could not be written.' })}\n`;
  const file = new RotatingFile({ folder, file_bytes: limits.log_file_bytes, files: limits.log_files, lostLine });
  const print = printer(stdout);
  const write = (text: string) => {
    const line = cutLine(scrub(text.trimEnd()), line_bytes);
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

function printer(stdout: LogOptions['stdout']): ((line: string) => void) | null {
  if (stdout === 'none') return null;
  let open = true;
  process.stdout.on('error', () => {
    open = false;
  });
  const form = stdout === 'json' ? (line: string) => `${line}\n` : pretty();
  return (line) => {
    if (open) process.stdout.write(form(line));
  };
}

/** Loaded only where a person looks at the log. */
function pretty(): (line: string) => string {
  const { prettyFactory } = createRequire(import.meta.url)('pino-pretty') as typeof import('pino-pretty');
  const colorize = process.stdout.isTTY === true && (process.env.NO_COLOR ?? '') === '';
  return prettyFactory({ colorize, singleLine: true, ignore: 'boot_id', translateTime: 'SYS:HH:MM:ss.l' }) as (line: string) => string;
}
