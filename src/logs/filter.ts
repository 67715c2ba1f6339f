import type { LogLevel } from '../config/settings.ts';
import { LOG_LEVELS } from '../contract/words.ts';

/** Which lines match. */
export interface LogFilter {
  /** This level and above. */
  level?: LogLevel;
  /** Lines of this run. */
  run?: string;
  /** Lines at or after this time, in milliseconds since the epoch. */
  since?: number;
}

/** `older`: neither this line nor an earlier one matches. */
export type Verdict = 'match' | 'skip' | 'older';

export function createFilter({ level, run, since }: LogFilter): (line: string) => Verdict {
  const lowest = level === undefined ? 0 : LOG_LEVELS.indexOf(level);
  if (lowest === 0 && run === undefined && since === undefined) return () => 'match';
  return (line) => {
    if (run !== undefined && !line.includes(run)) return 'skip';
    const fields = readLine(line);
    if (fields === null) return run === undefined ? 'match' : 'skip';
    if (since !== undefined && Date.parse(String(fields.time)) < since) return 'older';
    if (run !== undefined && fields.run_id !== run) return 'skip';
    return LOG_LEVELS.indexOf(fields.level as LogLevel) < lowest ? 'skip' : 'match';
  };
}

/** The fields of a log line; null if it is no JSON object. */
export function readLine(line: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

/**
 * Parses an RFC 3339 time, or an age such as `10m`, to milliseconds since the epoch. Null if it
 * is neither.
 */
export function parseSince(text: string, now: number): number | null {
  const age = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text);
  if (age !== null) return now - Number(age[1]) * (UNIT_MS[age[2] ?? ''] ?? 0);
  if (!/^\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}:\d{2})?)?$/.test(text))
    return null;
  const time = Date.parse(text.replace(' ', 'T'));
  return Number.isNaN(time) ? null : time;
}

const UNIT_MS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
