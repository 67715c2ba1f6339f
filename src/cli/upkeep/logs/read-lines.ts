import { fixedLimits } from '../../../limits.ts';
import { readLine } from '../../../logs/filter.ts';
import type { LogQuery } from './query.ts';

/**
 * How far a log was read, so that another connection resumes there.
 *
 * 1. The place is the time of the newest line. Two daemons write for a moment, so lines may be out
 *    of order. Another connection begins a little earlier, and lines already read are left out.
 * 2. The lines of that little time are kept up to a bound. Beyond it a line may come twice.
 */
export class ReadLines {
  /** Lines read so far. */
  count = 0;
  private readonly query: LogQuery;
  private newest = Date.now();
  private recent: string[] = [];
  private readonly skipped = new Map<string, number>();

  constructor(query: LogQuery) {
    this.query = query;
  }

  /** The query of a further connection. */
  next(): LogQuery {
    this.skipped.clear();
    for (const line of this.recent) this.skipped.set(line, (this.skipped.get(line) ?? 0) + 1);
    const since = Math.max(this.query.since ?? 0, this.newest - OVERLAP_MS);
    return { ...this.query, lines: fixedLimits.log_tail_lines, since };
  }

  /** Whether the line was not read before. */
  take(line: string): boolean {
    const left = this.skipped.get(line) ?? 0;
    if (left > 0) this.skipped.set(line, left - 1);
    const time = Date.parse(String(readLine(line)?.time));
    if (left > 0) return false;
    this.count += 1;
    if (Number.isNaN(time)) return true;
    this.newest = this.count === 1 ? time : Math.max(this.newest, time);
    this.recent.push(line);
    if (this.recent.length > 2 * RECENT_MAX) this.recent = this.recent.slice(-RECENT_MAX);
    return true;
  }
}

const OVERLAP_MS = 100;
const RECENT_MAX = 1000;
