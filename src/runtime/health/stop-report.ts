import type { StopReport } from '../../../machines/daemon/context.ts';
import { isTerminalEvent } from '../../../machines/run/context.ts';
import { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { DaemonKey } from '../../kernel/stream.ts';

/**
 * Counts what happens to the runs while the daemon stops.
 *
 * 1. The count begins when the stop is durable.
 * 2. `stopped` settles once, when the daemon machine reaches its final state.
 * 3. A boot that ends without that state rejects `stopped` with the reason, unless all runs are
 *    handed over.
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
    // Without a listener, a rejection would end the process.
    promise.catch(() => {});
    kernel.subscribe({ stream: daemon }, (_, snapshot) => {
      if (snapshot.status === 'done') resolve(snapshot.context.stop_report);
    });
    kernel.subscribe({ machine: 'run' }, ({ type }) => {
      if (!isTerminalEvent(type) || kernel.snapshot(daemon)?.hasTag('stopping') !== true) return;
      if (type === 'run.interrupted') this.ended += 1;
      else this.finished += 1;
    });
  }

  /** Settles `stopped` for a boot whose end is not in the log. */
  endUnrecorded(outcome: StopReport | SvcError): void {
    if (outcome instanceof SvcError) this.settle.reject(outcome);
    else this.settle.resolve(outcome);
  }

  /** `waiting`: runs that the next boot continues. */
  report(waiting: number): StopReport {
    return { finished: this.finished, handed_over: waiting, ended: this.ended };
  }
}
