import { callAfter } from './timers.ts';

/** Time as the kernel sees it. */
export interface Clock {
  /** Milliseconds since the epoch. It never goes back while the process runs. */
  now(): number;
  /**
   * Calls once after `ms`, unless the signal aborts before. Returns a function that cancels it.
   * In a process that was stopped meanwhile, what lies in the sockets is read before.
   */
  after(ms: number, call: () => void, signal?: AbortSignal): () => void;
  /** Calls when the time has jumped forward, before anything sees the new time. */
  onJump?(call: (ms: number) => void): void;
}

/** A time server never moves a clock this far at once. */
const SLEPT_MS = 30_000;

/**
 * The wall clock read once, then carried on by the monotonic clock, which stops while the computer
 * sleeps. A wall clock that is far ahead is read again. `onJump` hears by how much, and moves what
 * has a deadline: neither sleep nor a clock that was set makes anything late.
 */
export class SystemClock implements Clock {
  private readonly wall: () => number;
  private origin: number;
  private jumped: (ms: number) => void = () => {};

  constructor(wall: () => number = Date.now) {
    this.wall = wall;
    this.origin = wall() - performance.now();
  }

  onJump(call: (ms: number) => void): void {
    this.jumped = call;
  }

  now(): number {
    const passed = performance.now();
    const behind = Math.round(this.wall() - passed - this.origin);
    if (behind > SLEPT_MS) {
      this.origin += behind;
      this.jumped(behind);
    }
    return Math.round(this.origin + passed);
  }

  after(ms: number, call: () => void, signal?: AbortSignal): () => void {
    if (signal?.aborted) return () => {};
    const cancel = () => {
      stop();
      signal?.removeEventListener('abort', cancel);
    };
    const stop = callAfter(ms, () => {
      signal?.removeEventListener('abort', cancel);
      call();
    });
    signal?.addEventListener('abort', cancel);
    return cancel;
  }
}

/** Resolves after `ms`, or when the signal aborts. */
export function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const aborted = () => resolve();
    signal.addEventListener('abort', aborted);
    clock.after(
      ms,
      () => {
        signal.removeEventListener('abort', aborted);
        resolve();
      },
      signal,
    );
  });
}

/** The second of the last time that was written. Times of one second mostly follow each other. */
let second = { at: Number.NaN, text: '' };

/** A time as users see it. */
export function isoTime(at: number): string {
  const ms = at - second.at;
  if (Number.isInteger(ms) && ms >= 0 && ms < 1000)
    return `${second.text}${String(ms).padStart(3, '0')}Z`;
  const text = new Date(at).toISOString();
  if (Number.isInteger(at) && at >= 0) second = { at: at - (at % 1000), text: text.slice(0, -4) };
  return text;
}
