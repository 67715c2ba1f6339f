import { hasCode, SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import type { ControlClient } from '../../transport/control/client.ts';
import type { Params, Results } from '../../transport/control/protocol.ts';
import { limitsOf } from '../config/limits.ts';
import { connectDaemon } from '../connect/connect-daemon.ts';
import { note } from '../print/output.ts';

/** What commands read of runs: from the running daemon, or from a copy of its log without one. */
export interface RunReads {
  get(id: string): Promise<Results['run.get']>;
  list(query: Params<'run.list'>): Promise<Results['run.list']>;
  search(query: Params<'run.search'>): Promise<Results['run.search']>;
}

/** Opens the runs, calls `use`, and closes them. Throws daemon_not_running if there is no log. */
export async function withRuns<T>(paths: Paths, use: (runs: RunReads) => Promise<T>): Promise<T> {
  let client: ControlClient;
  try {
    client = await connectDaemon(paths);
  } catch (error) {
    if (!hasCode(error, 'daemon_not_running')) throw error;
    return withStored(paths, use);
  }
  try {
    return await use({
      get: (id) => client.call('run.get', { id }),
      list: (query) => client.call('run.list', query),
      search: (query) => client.call('run.search', query),
    });
  } finally {
    client.close();
  }
}

async function withStored<T>(
  { config, database, highWater }: Paths,
  use: (runs: RunReads) => Promise<T>,
): Promise<T> {
  const { openCopiedStore } = await import('../../store/inspect/copied-store.ts');
  const { projectRun } = await import('../../runtime/runs/record.ts');
  const { StoredRuns } = await import('../../runtime/history/stored-runs.ts');
  const limits = limitsOf(config);
  const store = await openCopiedStore({ database, highWater, limits, project: projectRun });
  if (store === null) throw noLog();
  try {
    const result = await use(new StoredRuns(store, { limits }));
    note('The daemon is not running. This is from its log.');
    return result;
  } finally {
    await store.close();
  }
}

export function noLog(): SvcError {
  return new SvcError('daemon_not_running', 'There is no event log yet: no daemon has run here.');
}
