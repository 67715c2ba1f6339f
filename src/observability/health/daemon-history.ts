import type { DaemonSnapshot } from '../../../machines/daemon/chart.ts';
import type { StopReport } from '../../../machines/daemon/context.ts';
import { isTerminalEvent } from '../../../machines/run/context.ts';
import { statePath } from '../../../machines/step.ts';
import { isoTime } from '../../async/clock.ts';
import { Notifier } from '../../async/notifier.ts';
import type { ReportRecord } from '../../contract/contract.ts';
import { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { StoredEvent } from '../../kernel/store/port.ts';
import type { DaemonKey } from '../../kernel/stream.ts';

/** State changes of this boot in the health report. */
const TRANSITIONS_MAX = 32;

/**
 * The latest state changes of the daemon machine, when it entered its state, and since when it is
 * ready: work that comes and goes does not change that.
 */
export class DaemonHistory {
  readonly transitions: ReportRecord['transitions'] = [];
  private readonly kernel: Kernel;
  private readonly stream: DaemonKey;
  /** Null: it is not ready. */
  ready_since: number | null = null;
  private enteredAt: number;
  private path: string;
  /** Called with each change of the state that health shows. */
  readonly changes = new Notifier();

  constructor(kernel: Kernel, stream: DaemonKey) {
    this.kernel = kernel;
    this.stream = stream;
    this.enteredAt = kernel.clock.now();
    this.path = statePath(kernel.tail(stream) as DaemonSnapshot);
    kernel.subscribe({ stream }, (event, snapshot) => {
      this.ready_since = snapshot.hasTag('ready') ? (this.ready_since ?? event.at) : null;
      this.follow(event, statePath(snapshot));
    });
    kernel.stalls.onStall(() => this.changes.notify());
  }

  /**
   * When the state that health shows began. While the log cannot be written, that is the proposed
   * state.
   */
  get since(): number {
    const { kernel, stream, path, enteredAt } = this;
    const isShown =
      kernel.stalled === null || statePath(kernel.tail(stream) as DaemonSnapshot) === path;
    return isShown ? enteredAt : kernel.stalls.began_at;
  }

  private follow(event: StoredEvent, path: string): void {
    const moved = path !== this.path || event.version === 1;
    this.path = path;
    if (moved) {
      this.enteredAt = event.at;
      this.transitions.push({ at: isoTime(event.at), event: event.type, state_path: path });
      if (this.transitions.length > TRANSITIONS_MAX) this.transitions.shift();
      this.changes.notify();
    }
  }
}

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
