/** Time as the kernel sees it. */
export interface Clock {
  /** Milliseconds since the epoch. Never goes back within one life of the process. */
  now(): number;
  /** Calls once after `ms`; returns the way to call it off. */
  after(ms: number, call: () => void): () => void;
}

/** Farther behind the wall clock than a clock that is kept right by a time server ever gets at once. */
const SLEPT_MS = 30_000;

/** Longest wait that a timer of the platform takes. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/**
 * The wall clock read once, then carried on by the monotonic one: a clock that is set an hour forward or back while the
 * daemon works moves no deadline. The monotonic one stands still while the computer sleeps, so where there is no work whose
 * deadlines could be missed, the wall clock is read again if it is ahead.
 */
export function systemClock(
  hasWork: () => boolean = () => false,
  wall: () => number = Date.now,
): Clock {
  let origin = wall() - performance.now();
  return {
    now() {
      const behind = wall() - performance.now() - origin;
      if (behind > SLEPT_MS && !hasWork()) origin += behind;
      return Math.round(origin + performance.now());
    },
    after(ms, call) {
      const timer = setTimeout(call, Math.min(TIMER_MAX_MS, Math.max(0, ms)));
      return () => clearTimeout(timer);
    },
  };
}

export interface ManualClock extends Clock {
  /** Moves time on and fires what became due, in order of time. */
  advance(ms: number): void;
}

export function manualClock(start = 0): ManualClock {
  let now = start;
  let timers: { at: number; call: () => void }[] = [];
  return {
    now: () => now,
    after(ms, call) {
      const timer = { at: now + Math.max(0, ms), call };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    advance(ms) {
      const end = now + ms;
      for (;;) {
        const next = timers.filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
        if (next === undefined) break;
        timers = timers.filter((other) => other !== next);
        now = Math.max(now, next.at);
        next.call();
      }
      now = end;
    },
  };
}
