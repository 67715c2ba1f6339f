import type { DaemonSnapshot } from '../../../machines/daemon/chart.ts';
import { statePath } from '../../../machines/step.ts';
import { Notifier } from '../../async/notifier.ts';
import type { ReportRecord } from '../../contract/contract.ts';
import { isoTime } from '../../kernel/clock.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { DaemonKey } from '../../kernel/stream.ts';
import type { StoredEvent } from '../../store/port.ts';

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
  /** Changes of the state that health shows. */
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
