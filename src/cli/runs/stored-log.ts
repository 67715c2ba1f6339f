import { loadConfig } from '../../config/config.ts';
import { openStoredLog } from '../../fleet/index.ts';
import type { Paths } from '../../home/paths.ts';
import { openClosedLog } from '../../kernel/store/inspect/closed-log.ts';
import { openClosedStore } from '../../kernel/store/sqlite/closed-store.ts';
import { StoredRuns } from '../../observability/history/stored-runs.ts';
import { findRun, namesIn } from '../../runtime/runs/find.ts';
import { projectRun } from '../../runtime/runs/record.ts';
import { sharedDatabase, withoutDaemon } from '../config/database.ts';
import { limitsOf } from '../config/limits.ts';
import { noLog } from '../connect/not-running.ts';
import { note } from '../print/output.ts';
import type { OpenLog } from './open-log.ts';
import type { RunReads } from './run-reads.ts';

/**
 * The log without its daemon. It is imported on use: it needs much code, which a quick command
 * leaves to the whole program.
 */

/** Opens the runs, calls `use`, and closes them. `says`: whether a note names the source. */
export async function withStoredRuns<T>(
  paths: Paths,
  use: (runs: RunReads) => Promise<T>,
  says: boolean,
): Promise<T> {
  const { config } = paths;
  const limits = limitsOf(config);
  return withoutDaemon(async () => {
    const store =
      (await sharedLog(paths)) ??
      (await openClosedStore({ ...paths, limits, project: projectRun }));
    if (store === null) throw noLog();
    try {
      const runs = new StoredRuns(store, { limits });
      const result = await use({
        get: (id) => runs.get(id),
        list: (query) => runs.list(query),
        search: (query) => runs.search(query),
        usage: (query) => runs.usage(query, loadConfig(config)),
        conversationUsage: (id) => runs.conversationUsage(id),
      });
      if (says) note('The daemon is not running. This is from its log.');
      return result;
    } finally {
      await store.close();
    }
  });
}

/** Opens the log, calls `use`, and closes it. */
export async function withStoredLog<T>(
  paths: Paths,
  use: (log: OpenLog) => Promise<T>,
): Promise<T> {
  return withoutDaemon(async () => {
    const log = (await fromDatabase(paths)) ?? (await fromFile(paths));
    try {
      return await use(log);
    } finally {
      log.close();
    }
  });
}

type Closed = OpenLog & { close(): void };

/** Null: the log is a file of this machine. */
async function fromDatabase(paths: Paths): Promise<Closed | null> {
  const log = await sharedLog(paths);
  if (log === null) return null;
  return {
    ...log,
    from: 'file',
    findRun: (written) => findRun(namesIn(log), written),
    problems: async () => (await log.verify()).problems,
    close: () => void log.close(),
  };
}

async function fromFile(paths: Paths): Promise<Closed> {
  const log = await openClosedLog({ ...paths, limits: limitsOf(paths.config) });
  if (log === null) throw noLog();
  const { runsNamed, newestRun: lastRun } = log;
  return { from: 'file', ...log, findRun: (written) => findRun({ runsNamed, lastRun }, written) };
}

/** Null: the log is a file of this machine. Throws daemon_not_running if there is no log. */
async function sharedLog({ config }: Paths) {
  const database = sharedDatabase(config);
  if (database === null) return null;
  const log = await openStoredLog(database);
  if (log === null) throw noLog();
  return log;
}
