import { cpus } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { usedCpuMs } from '../../async/timers.ts';

/** The use of the cores is counted over this time. The system counts hundredths of a second. */
const SAMPLE_MS = 100;

/** The processor time of the machine and of this process until now, in milliseconds. */
export interface Use {
  cores: readonly CoreTimes[];
  /** CPU time of this process. */
  own: number;
  at: number;
}

export function readUse(): Use {
  return { cores: coreTimes(), own: usedCpuMs(), at: performance.now() };
}

/** The time of one core since the start of the machine, in milliseconds. */
export interface CoreTimes {
  readonly idle: number;
  readonly total: number;
}

/**
 * Cores that other work has left idle since then, such as 1.4. What this process computed counts as
 * idle. Null: the system does not say.
 */
export async function idleSince(before: Use): Promise<number | null> {
  const left = before.at + SAMPLE_MS - performance.now();
  if (left > 0) await pause(left);
  return leftByOthers(before, readUse());
}

export function leftByOthers(before: Use, after: Use): number | null {
  const idle = idleBetween(before.cores, after.cores);
  if (idle === null || after.at <= before.at) return null;
  return idle + (after.own - before.own) / (after.at - before.at);
}

export function idleBetween(
  before: readonly CoreTimes[],
  after: readonly CoreTimes[],
): number | null {
  if (before.length === 0 || before.length !== after.length) return null;
  const parts = after.map(({ idle, total }, core) => {
    const was = before[core] as CoreTimes;
    // A core that did not count in this time was asleep.
    return total > was.total ? (idle - was.idle) / (total - was.total) : 1;
  });
  return parts.reduce((sum, part) => sum + part, 0);
}

/** Whether other work needed none of the cores. A system that does not say counts as idle. */
export function isQuiet(available: number, idle: number | null): boolean {
  return idle === null || Math.round(idle) >= available;
}

function coreTimes(): CoreTimes[] {
  return cpus().map(({ times }) => ({
    idle: times.idle,
    total: times.user + times.nice + times.sys + times.idle + times.irq,
  }));
}
