import type { Config } from '../config/config.ts';
import { isShared } from '../config/store/address.ts';
import { storePassword } from '../config/store/password.ts';
import { asSvcError, type SvcError } from '../errors.ts';
import type { Paths } from '../home/paths.ts';
import type { Clock } from '../kernel/clock.ts';
import type { Log } from '../kernel/port.ts';
import { oldestBoot } from '../runtime/fleet/nodes.ts';
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
  boot_id: string;
  onFatal(error: SvcError): void;
}

/** The event log, and what goes round it to check it. `place` names its database; null: a disk. */
export function createEventStore(options: EventStoreOptions) {
  const made = isShared(options.config.store) ? shared(options) : own(options);
  const { store, size, place, isMine } = made;
  const { clock, log, config } = options;
  const { limits } = config;
  const verification = new Verification({ store, clock, limits, log, size, isMine });
  return { store, size, place, verification };
}

interface Made {
  store: EventStore;
  size(): number;
  place: string | null;
  /** Whether this boot checks the log. */
  isMine(): Promise<boolean>;
}

function own({ paths, config, log, onFatal }: EventStoreOptions): Made {
  const store = createSqliteStore({
    database: paths.database,
    highWater: paths.highWater,
    limits: config.limits,
    ...mending(log),
    onAlarm: (error) => onFatal(asSvcError(error, 'store_failed')),
  });
  const isMine = () => Promise.resolve(true);
  return { store, size: () => logBytes(paths.database), place: null, isMine };
}

function shared({ config, log, boot_id }: EventStoreOptions): Made {
  const { size, place, ...store } = createPostgresStore({
    ...mending(log),
    address: config.store,
    password: storePassword(config),
    limits: config.limits,
  });
  const isMine = async () => oldestBoot(await store.fleet.nodes()) === boot_id;
  return { store, size, place, isMine };
}

function mending(log: Log): StoreOptions {
  return {
    project: projectRun,
    onMended: (run_id) =>
      log.warn({ run_id }, 'the record of a run was damaged, and was made again from its events'),
  };
}
