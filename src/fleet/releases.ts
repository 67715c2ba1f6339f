import { pause } from '../async/clock.ts';
import type { RunRequest } from '../contract/messages/parts.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { RunKey } from '../kernel/stream.ts';
import type { Log } from '../ports/log.ts';
import type { Scheduler } from '../runtime/runs/scheduler.ts';
import type { Fleet } from './port.ts';

export interface ReleasesOptions {
  fleet: Pick<Fleet, 'release'>;
  kernel: Kernel;
  scheduler: Scheduler;
  poll_ms: number;
  log: Log;
  /** Whether this node asks the fleet for such runs. */
  isOffered(request: RunRequest): boolean;
  /** Runs were released. */
  onReleased(runs: number): void;
}

/**
 * Gives the fleet the runs that cannot start here. It owns the runs whose release is not recorded
 * yet.
 *
 * 1. A run is released when its events are durable and it still waits. From then on it is in no
 *    kernel, so nothing here appends to it.
 * 2. A run that this node would not take back stays here: maybe no other node takes it.
 * 3. A release is sent again until the database has it.
 * 4. No kernel has the deadline of a released run. Each node looks for it at its poll.
 */
export class Releases {
  private readonly options: ReleasesOptions;
  private candidates = new Set<RunKey>();
  private readonly sending = new Set<RunKey>();
  private readonly over = new AbortController();
  private isOpen = false;

  constructor(options: ReleasesOptions) {
    this.options = options;
    options.kernel.subscribe({ machine: 'run' }, ({ stream }, snapshot) => {
      if (this.isOpen && snapshot.hasTag('queued')) this.consider(stream);
    });
  }

  /** The daemon is ready: what waits now cannot start here. */
  start(): void {
    this.isOpen = true;
    for (const run_id of this.options.scheduler.waitingRuns()) this.consider(run_id);
  }

  close(): void {
    this.isOpen = false;
    this.over.abort();
  }

  isSending(run_id: RunKey): boolean {
    return this.sending.has(run_id);
  }

  /** Looks after the turn, so that a response about the run is made from memory. */
  consider(run_id: RunKey): void {
    if (this.candidates.size === 0) setImmediate(() => this.release());
    this.candidates.add(run_id);
  }

  private release(): void {
    const { kernel, scheduler, isOffered } = this.options;
    const candidates = [...this.candidates];
    this.candidates = new Set();
    if (!this.isOpen || kernel.closed) return;
    const released = candidates.filter((run_id) => {
      const snapshot = kernel.snapshot(run_id);
      if (snapshot === undefined || !isOffered(snapshot.context.request)) return false;
      return scheduler.release(run_id);
    });
    for (const run_id of released) this.sending.add(run_id);
    if (released.length > 0) void this.send(released);
  }

  private async send(run_ids: readonly RunKey[]): Promise<void> {
    const { fleet, kernel, poll_ms, log, onReleased } = this.options;
    while (!this.over.signal.aborted)
      try {
        await fleet.release(run_ids);
        for (const run_id of run_ids) this.sending.delete(run_id);
        onReleased(run_ids.length);
        return;
      } catch (error) {
        log.warn({ err: error, runs: run_ids.length }, 'waiting runs are not released yet');
        await pause(kernel.clock, poll_ms, this.over.signal);
      }
  }
}
