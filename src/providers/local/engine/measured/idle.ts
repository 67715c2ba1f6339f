import { cpus } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';

/** The use of the cores is counted over this time. The system counts hundredths of a second. */
const SAMPLE_MS = 100;

/** What one core has done since the start of the machine, in milliseconds. */
export interface CoreTimes {
  readonly idle: number;
  readonly total: number;
}

/** Cores that other work leaves idle, such as 1.4. Null: the system does not say. */
export async function idleCores(): Promise<number | null> {
  const before = coreTimes();
  await pause(SAMPLE_MS);
  return idleBetween(before, coreTimes());
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

/**
 * The most threads that do not wait for a core. A thread that waits for one stalls all others of a
 * token. `available`: cores that this process may use; the machine may have more.
 */
export function threadsMost(available: number, idle: number | null): number {
  return Math.max(1, Math.min(available, idle === null ? available : Math.round(idle)));
}

export function coreTimes(): CoreTimes[] {
  return cpus().map(({ times }) => ({
    idle: times.idle,
    total: times.user + times.nice + times.sys + times.idle + times.irq,
  }));
}
