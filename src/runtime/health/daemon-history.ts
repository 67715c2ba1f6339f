import type { DaemonSnapshot } from '../../../machines/daemon.ts';
import { statePath } from '../../../machines/step.ts';
import { isoTime } from '../../kernel/clock.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { Notifier } from '../../kernel/notifier.ts';
import type { DaemonKey } from '../../kernel/stream.ts';
import type { StoredEvent } from '../../store/port.ts';
import type { ReportRecord } from '../contract.ts';

/** State changes of this boot that are kept for the health report. */
const KEPT = 32;

/** Follows the daemon machine: since when it is where it is, and how it came there. */
export class DaemonHistory {
  readonly transitions: ReportRecord['transitions'] = [];
  private readonly kernel: Kernel;
  private readonly stream: DaemonKey;
  private entered_at: number;
  private path: string;
  private readonly changes = new Notifier();

  constructor(kernel: Kernel, stream: DaemonKey) {
    this.kernel = kernel;
    this.stream = stream;
    this.entered_at = kernel.clock.now();
    this.path = statePath(kernel.tail(stream) as DaemonSnapshot);
    kernel.subscribe({ stream }, (event, snapshot) => this.note(event, statePath(snapshot)));
    kernel.stalls.onStall(() => this.changes.notify());
  }

  /** Since when the state lasts that health shows: while the log cannot be written that is the proposed one. */
  get since(): number {
    const { kernel, stream, path, entered_at } = this;
    const isShown =
      kernel.stalled === null || statePath(kernel.tail(stream) as DaemonSnapshot) === path;
    return isShown ? entered_at : kernel.stalls.began_at;
  }

  /** Calls at each change of state, until the signal aborts. */
  onChange(listener: () => void, signal: AbortSignal): void {
    this.changes.subscribe(listener, signal);
  }

  private note(event: StoredEvent, path: string): void {
    const moved = path !== this.path || event.version === 1;
    this.path = path;
    if (moved) {
      this.entered_at = event.at;
      this.transitions.push({ at: isoTime(event.at), event: event.type, state_path: path });
      if (this.transitions.length > KEPT) this.transitions.shift();
      this.changes.notify();
    }
  }
}
