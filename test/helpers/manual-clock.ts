import type { Clock } from '../../src/async/clock.ts';
import { FROZEN_MS, READ_MS } from '../../src/async/timers.ts';

export interface ManualClock extends Clock {
  /** Advances the time and fires due timers, in order. */
  advance(ms: number): void;
  /** Time passes, and nothing runs, as in a process that is stopped. */
  freeze(ms: number): void;
  /** The time jumps forward, and no timer comes nearer, as after sleep. */
  jump(ms: number): void;
}

export function manualClock(start = 0): ManualClock {
  let now = start;
  let timers: { at: number; call: () => void; isRead?: true }[] = [];
  let jumped: (ms: number) => void = () => {};
  return {
    now: () => now,
    after(ms, call, signal) {
      if (signal?.aborted) return () => {};
      const timer: (typeof timers)[number] = { at: now + Math.max(0, ms), call };
      const cancel = () => {
        timers = timers.filter((other) => other !== timer);
      };
      timers.push(timer);
      signal?.addEventListener('abort', cancel);
      return cancel;
    },
    onJump(call) {
      jumped = call;
    },
    freeze(ms) {
      now += ms;
    },
    jump(ms) {
      now += ms;
      for (const timer of timers) timer.at += ms;
      jumped(ms);
    },
    advance(ms) {
      const end = now + ms;
      for (;;) {
        const next = timers.filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
        if (next === undefined) break;
        if (now - next.at > FROZEN_MS && next.isRead === undefined) {
          Object.assign(next, { at: now + READ_MS, isRead: true });
          continue;
        }
        timers = timers.filter((other) => other !== next);
        now = Math.max(now, next.at);
        next.call();
      }
      now = end;
    },
  };
}
