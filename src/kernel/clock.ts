/** Time as the kernel sees it. */
export interface Clock {
  /** Milliseconds since the epoch. Never goes back within one life of the process. */
  now(): number;
  /** Calls once after `ms`; returns the way to call it off. */
  after(ms: number, call: () => void): () => void;
}

/** Longest wait that a timer of the platform takes. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/**
 * The wall clock read once, then carried on by the monotonic one: a clock that is set an hour forward or back while the
 * daemon runs moves no deadline.
 */
export function systemClock(): Clock {
  const origin = Date.now() - performance.now();
  return {
    now: () => Math.round(origin + performance.now()),
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
