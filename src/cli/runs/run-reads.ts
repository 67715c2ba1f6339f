import { hasCode, SvcError } from '../../errors.ts';
import type { StoredLog } from '../../fleet/postgres/alone.ts';
import type { Paths } from '../../home/paths.ts';
import type { Limits } from '../../limits.ts';
import type { StoredReads } from '../../runtime/history/stored-runs.ts';
import type { ControlClient } from '../../transport/control/client.ts';
import type { Params, Results } from '../../transport/control/protocol.ts';
import { connectDaemon } from '../connect/connect-daemon.ts';
import { note } from '../print/output.ts';

/** What commands read of runs: from the running daemon, or from the log without one. */
export interface RunReads {
  get(id: string): Promise<Results['run.get']>;
  list(query: Params<'run.list'>): Promise<Results['run.list']>;
  search(query: Params<'run.search'>): Promise<Results['run.search']>;
}

/**
 * Opens the runs, calls `use`, and closes them. Throws daemon_not_running if there is no log.
 * `says`: whether the user hears that they come from the log.
 */
export async function withRuns<T>(
  paths: Paths,
  use: (runs: RunReads) => Promise<T>,
  { says = true } = {},
): Promise<T> {
  return fromDaemonOrLog(paths, {
    daemon: (client) =>
      use({
        get: (id) => client.call('run.get', { id }),
        list: (query) => client.call('run.list', query),
        search: (query) => client.call('run.search', query),
      }),
    log: () => withStored(paths, use, says),
  });
}

interface Sources<T> {
  daemon(client: ControlClient): Promise<T>;
  log(): Promise<T>;
}

/** Asks the running daemon, and closes the connection. Without a daemon it reads the log. */
export async function fromDaemonOrLog<T>(paths: Paths, { daemon, log }: Sources<T>): Promise<T> {
  let client: ControlClient;
  try {
    client = await connectDaemon(paths);
  } catch (error) {
    if (!hasCode(error, 'daemon_not_running')) throw error;
    const { withoutDaemon } = await import('../config/database.ts');
    return withoutDaemon(log);
  }
  try {
    return await daemon(client);
  } finally {
    client.close();
  }
}

async function withStored<T>(
  paths: Paths,
  use: (runs: RunReads) => Promise<T>,
  says: boolean,
): Promise<T> {
  const { limitsOf } = await import('../config/limits.ts');
  const { StoredRuns } = await import('../../runtime/history/stored-runs.ts');
  const limits = limitsOf(paths.config);
  const store = (await sharedLog(paths)) ?? (await copiedStore(paths, limits));
  if (store === null) throw noLog();
  try {
    const result = await use(new StoredRuns(store, { limits }));
    if (says) note('The daemon is not running. This is from its log.');
    return result;
  } finally {
    await store.close();
  }
}

/** Null: the log is a file of this machine. Throws daemon_not_running if there is no log. */
export async function sharedLog({ config }: Paths): Promise<StoredLog | null> {
  const { sharedDatabase } = await import('../config/database.ts');
  const database = sharedDatabase(config);
  if (database === null) return null;
  const { openStoredLog } = await import('../../fleet/postgres/alone.ts');
  const log = await openStoredLog(database);
  if (log === null) throw noLog();
  return log;
}

async function copiedStore({ database, highWater }: Paths, limits: Limits): Promise<Stored | null> {
  const { openCopiedStore } = await import('../../store/inspect/copied-store.ts');
  const { projectRun } = await import('../../runtime/runs/record.ts');
  return openCopiedStore({ database, highWater, limits, project: projectRun });
}

type Stored = StoredReads & { close(): Promise<void> };

export function noLog(): SvcError {
  return new SvcError('daemon_not_running', 'There is no event log yet: no daemon has run here.');
}
