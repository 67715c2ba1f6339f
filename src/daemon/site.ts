import type { Addresses } from '../../machines/daemon/context.ts';
import type { Config } from '../config/config.ts';
import { isPostgres } from '../config/store/address.ts';
import { asSvcError, type SvcError } from '../errors.ts';
import type { FleetClock } from '../fleet/clock.ts';
import { fleetSite } from '../fleet/site.ts';
import type { Paths } from '../home/paths.ts';
import { type Clock, SystemClock } from '../kernel/clock.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { Log } from '../kernel/port.ts';
import type { DaemonKey } from '../kernel/stream.ts';
import { OneDaemon, type Placement } from '../runtime/placement.ts';
import type { Providers } from '../runtime/providers/providers.ts';
import { projectRun } from '../runtime/runs/record.ts';
import type { Scheduler } from '../runtime/runs/scheduler.ts';
import { logBytes } from '../store/files/database-file.ts';
import type { EventStore, OpenReport } from '../store/port.ts';
import { createSqliteStore } from '../store/sqlite/sqlite.ts';
import type { StoreOptions } from '../store/store.ts';

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

/** The log of a daemon, and what follows from where it is: on this disk, or shared by several. */
export interface Site {
  store: EventStore;
  clock: Clock & Partial<Pick<FleetClock, 'resyncWhile'>>;
  /** Bytes of the log. */
  size(): number;
  /** Its database in messages; null: a disk. */
  place: string | null;
  /** Whether this boot checks the log. */
  isMine(): Promise<boolean>;
  /** Takes part in the work on the log. Called once, before the daemon starts. */
  membership(parts: SiteParts): Membership;
}

/** What the runs of a daemon need. */
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

export function createSite(options: Omit<SiteOptions, 'mending'>): Site {
  const { log } = options;
  const mending: StoreOptions = {
    project: projectRun,
    onMended: (run_id) =>
      log.warn({ run_id }, 'the record of a run was damaged, and was made again from its events'),
    onReindexed: () =>
      log.warn({}, 'a damaged part of the event log was made again from its events'),
  };
  return (isPostgres(options.config.store) ? fleetSite : localSite)({ ...options, mending });
}

/** The log is a file of this home, whose lock keeps other daemons away. */
function localSite({ paths, config, onFatal, mending }: SiteOptions): Site {
  const store = createSqliteStore({
    ...mending,
    database: paths.database,
    highWater: paths.highWater,
    limits: config.limits,
    onAlarm: (error) => onFatal(asSvcError(error, 'store_failed')),
  });
  return {
    store,
    clock: new SystemClock(),
    size: () => logBytes(paths.database),
    place: null,
    isMine: async () => true,
    membership: ({ kernel, scheduler }) => ({
      runs: new OneDaemon(kernel, scheduler.unrecovered, store),
      join: async ({ last_boot_id }) => ({ last_boot_id, is_clock_set: false }),
      joined: async () => {},
      start: () => {},
      close: () => {},
      leave: async () => {},
    }),
  };
}
