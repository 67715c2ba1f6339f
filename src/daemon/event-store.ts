import { asSvcError, type SvcError } from '../errors.ts';
import type { Paths } from '../home/paths.ts';
import type { Clock } from '../kernel/clock.ts';
import type { Log } from '../kernel/port.ts';
import type { Limits } from '../limits.ts';
import { Verification } from '../runtime/health/verification.ts';
import { projectRun } from '../runtime/runs/record.ts';
import { logBytes } from '../store/files/database-file.ts';
import { createSqliteStore } from '../store/sqlite/sqlite.ts';

export interface EventStoreOptions {
  paths: Paths;
  limits: Limits;
  clock: Clock;
  log: Log;
  onFatal(error: SvcError): void;
}

/** The event log, and what goes round it to check it. */
export function createEventStore({ paths, limits, clock, log, onFatal }: EventStoreOptions) {
  const size = () => logBytes(paths.database);
  const store = createSqliteStore({
    ...{ database: paths.database, highWater: paths.highWater, limits },
    project: projectRun,
    onMended: (run_id) =>
      log.warn({ run_id }, 'the record of a run was damaged, and was made again from its events'),
    onAlarm: (error) => onFatal(asSvcError(error, 'store_failed')),
  });
  return { store, size, verification: new Verification({ store, clock, limits, log, size }) };
}
