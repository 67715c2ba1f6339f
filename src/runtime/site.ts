import type { Addresses } from '../../machines/daemon/context.ts';
import type { Clock } from '../async/clock.ts';
import type { Config } from '../config/config.ts';
import type { SvcError } from '../errors.ts';
import type { Paths } from '../home/paths.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { EventStore, OpenReport } from '../kernel/store/port.ts';
import type { StoreOptions } from '../kernel/store/store.ts';
import type { DaemonKey } from '../kernel/stream.ts';
import type { Log } from '../ports/log.ts';
import type { Placement } from './placement.ts';
import type { Providers } from './providers/providers.ts';
import type { Scheduler } from './runs/scheduler.ts';

export interface SiteOptions {
  paths: Paths;
  config: Config;
  log: Log;
  boot_id: string;
  version: string;
  /** The log cannot be trusted any more, or is that of another daemon. */
  onFatal(error: SvcError): void;
  mending: StoreOptions;
}

/** The log of a daemon, with the parts that depend on its place: on this disk, or shared. */
export interface Site {
  store: EventStore;
  /** `resyncWhile`: a clock of several daemons corrects a large difference while it is idle. */
  clock: Clock & { resyncWhile?(isIdle: () => boolean): void };
  /** Bytes of the log. */
  size(): number;
  /** Its database in messages; null: a disk. */
  place: string | null;
  /** Whether this boot checks the log. */
  isMine(): Promise<boolean>;
  /** Takes part in the work on the log. Called once, before the daemon starts. */
  membership(parts: SiteParts): Membership;
}

/** The dependencies of the runs of a daemon. */
export interface SiteParts {
  kernel: Kernel;
  daemon: DaemonKey;
  scheduler: Scheduler;
  providers: Providers;
  /** Which file a model of the built-in provider is. Null: it cannot be read. */
  identify(model: string): Promise<string | null>;
}

/** This daemon among those of its log, from its start to its stop. */
export interface Membership {
  runs: Placement;
  /**
   * The log is open. Answers the boot before this one, and whether the clock was set. `onDrain`:
   * someone asks this daemon to finish its work and stop. Throws daemon_already_running.
   */
  join(
    opened: OpenReport,
    addresses: Addresses,
    onDrain: () => void,
  ): Promise<{ last_boot_id: string | null; is_clock_set: boolean }>;
  /** The kernel is open. */
  joined(): Promise<void>;
  /** The daemon is ready. */
  start(): void;
  /** From now on this daemon takes no runs from others, and gives them none. */
  close(): void;
  /** Before the log is closed. */
  leave(): Promise<void>;
}
