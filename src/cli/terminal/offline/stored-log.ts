import { openStoredLog } from '../../../fleet/index.ts';
import type { Paths } from '../../../home/paths.ts';
import { type ClosedLog, openClosedLog } from '../../../kernel/store/inspect/closed-log.ts';
import { openClosedStore } from '../../../kernel/store/sqlite/closed-store.ts';
import { StoredRuns } from '../../../observability/history/stored-runs.ts';
import { findRun, namesIn } from '../../../runtime/runs/find.ts';
import { projectRun } from '../../../runtime/runs/record.ts';
import { noLog } from '../connect/not-running.ts';
import { sharedDatabase } from './database.ts';
import { limitsOf } from './limits.ts';

/** The log without its daemon. To open it throws daemon_not_running without a log. */

export type StoredRecords = StoredRuns & { close(): Promise<void> };

export interface StoredLog
  extends Pick<ClosedLog, 'last_seq' | 'readAll' | 'readStream' | 'problems'> {
  findRun(written: string): Promise<string>;
  close(): unknown;
}

export async function openRuns(paths: Paths): Promise<StoredRecords> {
  const limits = limitsOf(paths.config);
  const store =
    (await sharedLog(paths)) ?? (await openClosedStore({ ...paths, limits, project: projectRun }));
  if (store === null) throw noLog();
  return Object.assign(new StoredRuns(store, { limits }), { close: () => store.close() });
}

/** Only events are read, so a damaged log stays readable. */
export async function openLog(paths: Paths): Promise<StoredLog> {
  const shared = await sharedLog(paths);
  if (shared !== null)
    return {
      ...shared,
      findRun: (written) => findRun(namesIn(shared), written),
      problems: async () => (await shared.verify()).problems,
    };
  const log = await openClosedLog({ ...paths, limits: limitsOf(paths.config) });
  if (log === null) throw noLog();
  const { runsNamed, newestRun: lastRun } = log;
  return { ...log, findRun: (written) => findRun({ runsNamed, lastRun }, written) };
}

/** Null: the log is a file of this machine. */
async function sharedLog({ config }: Paths) {
  const database = sharedDatabase(config);
  if (database === null) return null;
  const log = await openStoredLog(database);
  if (log === null) throw noLog();
  return log;
}
