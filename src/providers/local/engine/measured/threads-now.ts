import { availableParallelism } from 'node:os';
import { type CoreTimes, coreTimes, idleBetween, threadsMost } from './idle.ts';

/** What the machine and this process have done until now, in milliseconds. */
export interface Use {
  cores: readonly CoreTimes[];
  /** CPU time of this process. */
  own: number;
  at: number;
}

export interface ThreadsNowOptions {
  /** The number that is best while no other work needs the cores. */
  best: number;
  /** Cores that this process may use. */
  available: number;
  /** A change, in words. */
  report(text: string): void;
}

/**
 * The number of threads for the next answers: fewer while other work keeps cores busy.
 *
 * 1. The cores that this process uses itself count as idle.
 * 2. `present` is never above the best number, and never below one.
 */
export class ThreadsNow {
  private readonly options: ThreadsNowOptions;
  private last: Use;
  private now: number;

  /** `present`: the number at first. */
  constructor(options: ThreadsNowOptions, use: Use, present = options.best) {
    this.options = options;
    this.last = use;
    this.now = present;
  }

  get present(): number {
    return this.now;
  }

  /** Call it now and then: what counts is the use since the last call. */
  note(use: Use): void {
    const { best, available, report } = this.options;
    const { cores, own, at } = this.last;
    this.last = use;
    const others = idleBetween(cores, use.cores);
    if (others === null || use.at <= at) return;
    const idle = others + (use.own - own) / (use.at - at);
    const threads = Math.min(best, threadsMost(available, idle));
    if (threads !== this.now)
      report(`threads ${threads}: other work leaves ${idle.toFixed(1)} of ${available} cores`);
    this.now = threads;
  }
}

/** Time between two looks at the machine. Other work that lasts shorter slows one answer. */
const LOOK_MS = 1000;

/** Looks at the machine for as long as the process lives, if the number may change. */
export function watchThreads(
  mayChange: boolean,
  best: number,
  present: number,
  report: (text: string) => void,
): ThreadsNow {
  const available = availableParallelism();
  const now = new ThreadsNow({ best, available, report }, used(), present);
  if (mayChange && best > 1) setInterval(() => now.note(used()), LOOK_MS).unref();
  return now;
}

function used(): Use {
  const { user, system } = process.cpuUsage();
  return { cores: coreTimes(), own: (user + system) / 1000, at: performance.now() };
}
