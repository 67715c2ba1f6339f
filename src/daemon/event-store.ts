import type { Config } from '../config/config.ts';
import { isShared } from '../config/store/address.ts';
import { storePassword } from '../config/store/password.ts';
import { asSvcError, type SvcError } from '../errors.ts';
import type { Paths } from '../home/paths.ts';
import type { Clock } from '../kernel/clock.ts';
import type { Log } from '../kernel/port.ts';
import { Verification } from '../runtime/health/verification.ts';
import { projectRun } from '../runtime/runs/record.ts';
import { logBytes } from '../store/files/database-file.ts';
import type { EventStore } from '../store/port.ts';
import { createPostgresStore } from '../store/postgres/postgres.ts';
import { createSqliteStore } from '../store/sqlite/sqlite.ts';
import type { StoreOptions } from '../store/store.ts';

export interface EventStoreOptions {
  paths: Paths;
  config: Config;
  clock: Clock;
  log: Log;
  onFatal(error: SvcError): void;
}

/** The event log, and what goes round it to check it. `place` names its database; null: a disk. */
export function createEventStore(options: EventStoreOptions) {
  const { store, size, place } = isShared(options.config.store) ? shared(options) : own(options);
  const { clock, log, config } = options;
  const verification = new Verification({ store, clock, limits: config.limits, log, size });
  return { store, size, place, verification };
}

interface Made {
  store: EventStore;
  size(): number;
  place: string | null;
}

function own({ paths, config, log, onFatal }: EventStoreOptions): Made {
  const store = createSqliteStore({
    ...{ database: paths.database, highWater: paths.highWater, limits: config.limits },
    ...mending(log),
    onAlarm: (error) => onFatal(asSvcError(error, 'store_failed')),
  });
  return { store, size: () => logBytes(paths.database), place: null };
}

function shared({ config, log }: EventStoreOptions): Made {
  const { size, place, ...store } = createPostgresStore({
    ...mending(log),
    address: config.store,
    password: storePassword(config),
    limits: config.limits,
  });
  return { store, size, place };
}

function mending(log: Log): StoreOptions {
  return {
    project: projectRun,
    onMended: (run_id) =>
      log.warn({ run_id }, 'the record of a run was damaged, and was made again from its events'),
  };
}
