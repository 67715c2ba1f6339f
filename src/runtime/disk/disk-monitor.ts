import type { DaemonEvent } from '../../../machines/daemon/context.ts';
import type { NewEvent } from '../../../machines/events.ts';
import type { Clock } from '../../async/clock.ts';
import type { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { EventStore } from '../../kernel/store/port.ts';
import type { DaemonKey } from '../../kernel/stream.ts';
import type { Log } from '../../ports/log.ts';

export interface DiskMonitorOptions {
  store: Pick<EventStore, 'reserve'>;
  clock: Clock;
  log: Log;
  kernel: Pick<Kernel, 'stalls' | 'tryAppend'>;
  daemon: DaemonKey;
}

/** Time between two checks of a full disk. */
const CHECK_EVERY_MS = 1_000;

/**
 * Reports a full or stalled disk to the daemon machine, and checks a full disk until it has space.
 *
 * 1. The daemon hears once that the disk is full, and once that the reserve is back.
 * 2. At most one check runs at a time.
 * 3. Both events of a late commit are appended when they happen, and recorded when the commit
 *    returns.
 */
export class DiskMonitor {
  private readonly options: DiskMonitorOptions;
  private isFull = false;
  private readonly closing = new AbortController();

  constructor(options: DiskMonitorOptions) {
    this.options = options;
    const { stalls } = options.kernel;
    stalls.onReserve((isUsed) => isUsed && this.reportFull());
    stalls.onStall((cause) => this.reportStall(cause));
    stalls.onResume(() => this.append({ type: 'daemon.disk_resumed' }));
  }

  /** The daemon is ready: an event that was refused during the start is appended again. */
  onReady(): void {
    if (this.isFull) this.append({ type: 'daemon.store_filled' });
  }

  close(): void {
    this.isFull = true;
    this.closing.abort();
  }

  private reportFull(): void {
    if (this.isFull) return;
    this.isFull = true;
    this.append({ type: 'daemon.store_filled' });
    this.checkLater();
  }

  private reportStall(cause: SvcError): void {
    if (cause.code === 'store_full') this.reportFull();
    else this.append({ type: 'daemon.disk_stalled' });
  }

  private checkLater(): void {
    const check = () => this.log(this.check());
    this.options.clock.after(CHECK_EVERY_MS, check, this.closing.signal);
  }

  private async check(): Promise<void> {
    const { store, kernel, daemon } = this.options;
    if (!(await store.reserve())) {
      // The daemon may have refused the first one, while it was starting.
      await kernel.tryAppend(daemon, { type: 'daemon.store_filled' });
      return this.checkLater();
    }
    this.isFull = false;
    await kernel.tryAppend(daemon, { type: 'daemon.store_freed' });
  }

  private append(event: NewEvent<DaemonEvent>): void {
    this.log(this.options.kernel.tryAppend(this.options.daemon, event));
  }

  private log(done: Promise<unknown>): void {
    done.catch((error: unknown) =>
      this.options.log.error({ err: error }, 'the disk monitor failed to record an event'),
    );
  }
}
