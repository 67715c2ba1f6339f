import { SystemClock } from '../async/clock.ts';
import { isPostgres } from '../config/store/address.ts';
import { asSvcError } from '../errors.ts';
import { fleetSite } from '../fleet/index.ts';
import { logBytes } from '../kernel/store/files/database-file.ts';
import { createSqliteStore } from '../kernel/store/sqlite/sqlite.ts';
import type { StoreOptions } from '../kernel/store/store.ts';
import { OneDaemon } from '../runtime/placement.ts';
import { projectRun } from '../runtime/runs/record.ts';
import type { Site, SiteOptions } from '../runtime/site.ts';

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
