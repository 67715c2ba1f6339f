import type { Clock } from '../../src/async/clock.ts';
import type { Random } from './random.ts';

interface Timer {
  at: number;
  call: () => void;
}

/** The clock of one boot. Only the simulation advances it, never back. */
export class SimClock implements Clock {
  readonly start: number;
  private time: number;
  private readonly timers = new Set<Timer>();

  constructor(start: number) {
    this.start = start;
    this.time = start;
  }

  now(): number {
    return this.time;
  }

  after(ms: number, call: () => void, signal?: AbortSignal): () => void {
    if (signal?.aborted) return () => {};
    const timer = { at: this.time + Math.max(0, ms), call };
    const cancel = () => void this.timers.delete(timer);
    this.timers.add(timer);
    signal?.addEventListener('abort', cancel);
    return cancel;
  }

  /** Time of the earliest timer; infinite without timers. */
  nextAt(): number {
    let at = Number.POSITIVE_INFINITY;
    for (const timer of this.timers) if (timer.at < at) at = timer.at;
    return at;
  }

  /** Advances the time, at most to the next timer. */
  pass(ms: number): void {
    this.time = Math.max(this.time, Math.min(this.time + ms, this.nextAt()));
  }

  /** Advances to the next timer and fires it; any one of several. */
  fire(random: Random): void {
    const at = Math.max(this.time, this.nextAt());
    const due = [...this.timers].filter((timer) => timer.at <= at);
    if (due.length === 0) return;
    const timer = random.pick(due);
    this.time = at;
    this.timers.delete(timer);
    timer.call();
  }
}
