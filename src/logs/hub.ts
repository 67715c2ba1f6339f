import type { Limits } from '../limits.ts';
import type { LogStream } from './log.ts';

/**
 * Sends each new log line to its followers.
 *
 * 1. A write never waits, and costs nothing without followers.
 * 2. Lines and bytes bound the buffer of a follower. A full buffer drops the oldest line and
 *    counts it.
 */
export class LogHub implements LogStream {
  private readonly capacity: Capacity;
  private readonly followers = new Set<Buffered>();
  private closed = false;

  constructor(capacity: Capacity) {
    this.capacity = capacity;
  }

  write(line: string): void {
    for (const follower of this.followers) follower.add(line);
  }

  /** Follows the lines from now on that match. */
  follow(matches: (line: string) => boolean): LogFollower {
    const follower = new Buffered(this.capacity, matches, () => this.followers.delete(follower));
    this.followers.add(follower);
    if (this.closed) follower.close();
    return follower;
  }

  /** Followers get the buffered lines, and nothing new. */
  close(): void {
    this.closed = true;
    for (const follower of this.followers) follower.close();
  }
}

type Capacity = Pick<Limits, 'log_follow_lines' | 'log_follow_bytes'>;

export interface LogBatch {
  /** Lines dropped before `lines`. */
  missed: number;
  lines: string[];
}

export interface LogFollower {
  /** Waits for lines; null at the end. One caller at a time. */
  next(): Promise<LogBatch | null>;
  close(): void;
}

class Buffered implements LogFollower {
  private readonly capacity: Capacity;
  private readonly matches: (line: string) => boolean;
  private readonly leave: () => void;
  private lines: string[] = [];
  private length = 0;
  private missed = 0;
  private closed = false;
  private wake = () => {};

  constructor(capacity: Capacity, matches: (line: string) => boolean, leave: () => void) {
    this.capacity = capacity;
    this.matches = matches;
    this.leave = leave;
  }

  add(line: string): void {
    if (!this.matches(line)) return;
    this.lines.push(line);
    this.length += line.length;
    while (
      this.lines.length > this.capacity.log_follow_lines ||
      (this.length > this.capacity.log_follow_bytes && this.lines.length > 1)
    ) {
      this.length -= this.lines.shift()?.length ?? 0;
      this.missed += 1;
    }
    this.wake();
  }

  async next(): Promise<LogBatch | null> {
    while (this.lines.length === 0 && !this.closed) {
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
    const batch = { missed: this.missed, lines: this.lines };
    this.lines = [];
    this.length = 0;
    this.missed = 0;
    return batch.lines.length === 0 ? null : batch;
  }

  close(): void {
    this.closed = true;
    this.leave();
    this.wake();
  }
}
