import { type Clock, SystemClock } from '../async/clock.ts';
import type { Fleet, NodeClock } from './port.ts';

/**
 * The clock of a kernel in a fleet: it shows the time of the database. Events and deadlines then
 * have the same time, whichever node has the run. It owns the state of two clocks of this machine:
 * the shown clock, and that of the system.
 *
 * 1. Before the first answer it shows the time of this machine, and then that of the database.
 * 2. A small difference is corrected at once. A large one is corrected while no work has deadlines.
 * 3. After sleep the shown time is far behind both. It is corrected at once, and deadlines move, as
 *    in one daemon: a call may wait for a person for a day.
 * 4. While one of the two is far from the database, this node takes no runs. A machine whose own
 *    clock is wrong cannot check certificates, and its log lines fit nothing.
 */
export class FleetClock implements Clock {
  /** How the system clock of this machine is. Null: it is not known yet. */
  report: NodeClock | null = null;
  /** Why this node takes no runs. */
  trouble: string | null = null;
  private readonly own: Clock;
  private readonly wall: () => number;
  private readonly most_ms: number;
  private behind = 0;
  private isIdle: () => boolean = () => true;
  private jumped: (ms: number) => void = () => {};

  constructor({ lease_ms, own = steadyClock(), wall = Date.now }: FleetClockOptions) {
    this.own = own;
    this.wall = wall;
    this.most_ms = lease_ms / 2;
  }

  onJump(call: (ms: number) => void): void {
    this.jumped = call;
  }

  /** A large difference is corrected while no work has deadlines. */
  resyncWhile(isIdle: () => boolean): void {
    this.isIdle = isIdle;
  }

  now(): number {
    return Math.round(this.own.now() + this.behind);
  }

  after(ms: number, call: () => void, signal?: AbortSignal): () => void {
    return this.own.after(ms, call, signal);
  }

  /** Asks the database for its time. Throws store_stalled. */
  async follow({ time }: Pick<Fleet, 'time'>): Promise<void> {
    let best = await this.ask(time);
    // A slow answer says little. Any answer is better than none.
    for (let tries = 1; best.doubt_ms > DOUBT_MS_MAX && tries < TRIES; tries += 1) {
      const next = await this.ask(time);
      if (next.doubt_ms < best.doubt_ms) best = next;
    }
    const { behind_ms, wall_ms, doubt_ms } = best;
    const isFirst = this.report === null;
    const left = behind_ms - this.behind;
    const isFar = (ms: number) => Math.abs(ms) - doubt_ms > this.most_ms;
    const isNear = !isFar(left) || this.isIdle();
    const hasSlept = left > 0 && !isFar(wall_ms);
    if (Math.abs(left) > doubt_ms + NOISE_MS && (isFirst || isNear || hasSlept)) {
      this.behind = behind_ms;
      if (!isFirst && !isNear) this.jumped(Math.round(left));
    }
    this.trouble = isFar(wall_ms)
      ? `The clock of this machine is ${describeLead(wall_ms)} that of the database, ${NO_RUNS}.`
      : isFar(behind_ms - this.behind)
        ? `The clock of the database was set, ${NO_RUNS} until those that it has have ended.`
        : null;
    this.report = { clock_ms: Math.round(wall_ms), takes_runs: this.trouble === null };
  }

  private async ask(time: Fleet['time']): Promise<Answer> {
    const askedAt = performance.now();
    const at = await time();
    const doubt_ms = (performance.now() - askedAt) / 2;
    const now = at + doubt_ms;
    return { behind_ms: now - this.own.now(), wall_ms: this.wall() - now, doubt_ms };
  }
}

export interface FleetClockOptions {
  lease_ms: number;
  /** Monotonic clock that interpolates between two answers of the database. */
  own?: Clock;
  /** The system clock of this machine. */
  wall?: () => number;
}

interface Answer {
  /** How far the own clock is behind the database, and the system clock ahead of it. */
  behind_ms: number;
  wall_ms: number;
  /** The answer may be wrong by so much. */
  doubt_ms: number;
}

const NO_RUNS = 'so this node takes no runs';

const DOUBT_MS_MAX = 250;
const TRIES = 3;
/** Smaller differences are those of two answers. */
const NOISE_MS = 50;

function describeLead(ms: number): string {
  const s = Math.round(Math.abs(ms) / 1000);
  return `${s} s ${ms > 0 ? 'ahead of' : 'behind'}`;
}

/** The monotonic clock of this machine. Its wall clock is not read again. */
function steadyClock(): Clock {
  const origin = Date.now() - performance.now();
  return new SystemClock(() => origin + performance.now());
}
