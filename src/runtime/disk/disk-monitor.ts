import type { DaemonEvent, NewEvent } from '../../../machines/events.ts';
import type { SvcError } from '../../errors.ts';
import type { Clock } from '../../kernel/clock.ts';
import type { Log } from '../../kernel/port.ts';
import type { EventStore } from '../../store/port.ts';

export interface DiskMonitorOptions {
  store: Pick<EventStore, 'reserve'>;
  clock: Clock;
  log: Log;
  /** Records a fact of the daemon; false when its machine does not accept it. */
  tell(fact: NewEvent<DaemonEvent>): Promise<boolean>;
}

/** How often a full disk is looked at. */
const LOOK_EVERY_MS = 1_000;

/**
 * The disk is full, and is looked at until it is not; or it does not answer.
 *
 * 1. The daemon is told once that it is full, and once that there is space again: the reserve is back.
 * 2. At most one look is under way.
 * 3. A late commit is reported to the daemon when it is noticed, and again when it returns. Both facts are recorded then.
 */
export class DiskMonitor {
  private readonly options: DiskMonitorOptions;
  private full = false;
  private callOff = () => {};

  constructor(options: DiskMonitorOptions) {
    this.options = options;
  }

  /** The last commit found no space but the reserve's, or not even that. */
  filled(): void {
    if (this.full) return;
    this.full = true;
    this.report(this.options.tell({ type: 'daemon.store_filled' }));
    this.lookLater();
  }

  /** No commit can be made. */
  stalled(cause: SvcError): void {
    if (cause.code === 'store_full') this.filled();
    else this.report(this.options.tell({ type: 'daemon.disk_stalled' }));
  }

  /** Commits are made again. A daemon that is held for want of space stays so. */
  resumed(): void {
    this.report(this.options.tell({ type: 'daemon.disk_resumed' }));
  }

  /** The daemon is ready: what it refused while it was starting is told again. */
  started(): void {
    if (this.full) this.report(this.options.tell({ type: 'daemon.store_filled' }));
  }

  close(): void {
    this.full = true;
    this.callOff();
  }

  private lookLater(): void {
    this.callOff = this.options.clock.after(LOOK_EVERY_MS, () => this.report(this.look()));
  }

  private async look(): Promise<void> {
    if (!(await this.options.store.reserve())) {
      // It may have been refused before: the daemon was starting.
      await this.options.tell({ type: 'daemon.store_filled' });
      return this.lookLater();
    }
    this.full = false;
    await this.options.tell({ type: 'daemon.store_freed' });
  }

  private report(done: Promise<unknown>): void {
    done.catch((error: unknown) =>
      this.options.log.error({ err: error }, 'the space on the disk could not be looked after'),
    );
  }
}
