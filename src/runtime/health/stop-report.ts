import type { StopReport } from '../../../machines/events.ts';
import { isIn } from '../../../machines/step.ts';
import { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { DaemonKey } from '../../kernel/stream.ts';
import { isTerminalEvent } from '../contract.ts';

/**
 * What becomes of the runs while the daemon stops.
 *
 * 1. It counts the ends of runs from the moment that the stop is durable.
 * 2. `stopped` settles once: when the daemon's machine has reached its end, or when this life ends without it. Then it rejects with the reason,
 *    unless all runs are handed over.
 */
export class StopReports {
  readonly stopped: Promise<StopReport | null>;
  private readonly settle: PromiseWithResolvers<StopReport | null>;
  private finished = 0;
  private ended = 0;

  constructor(kernel: Kernel, daemon: DaemonKey) {
    this.settle = Promise.withResolvers<StopReport | null>();
    const { promise, resolve } = this.settle;
    this.stopped = promise;
    // Often no client waits for it.
    promise.catch(() => {});
    kernel.subscribe({ stream: daemon }, (_, snapshot) => {
      if (snapshot.status === 'done') resolve(snapshot.context.stop_report);
    });
    kernel.subscribe({ machine: 'run' }, ({ type }) => {
      if (!isTerminalEvent(type) || !isIn(kernel.snapshot(daemon), 'stopping')) return;
      if (type === 'run.interrupted') this.ended += 1;
      else this.finished += 1;
    });
  }

  /** This life ends, and its log does not say so. */
  endUnrecorded(outcome: StopReport | SvcError): void {
    if (outcome instanceof SvcError) this.settle.reject(outcome);
    else this.settle.resolve(outcome);
  }

  /** `waiting`: runs that are left to the next start. */
  report(waiting: number): StopReport {
    return { finished: this.finished, handed_over: waiting, ended: this.ended };
  }
}
