import { hasCode } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import type { ControlClient } from '../../transport/control/client.ts';
import type { Params, Results } from '../../transport/control/protocol.ts';
import { connectDaemon } from '../connect/connect-daemon.ts';

/** Reads of runs by commands: from the running daemon, or from the log without one. */
export interface RunReads {
  get(id: string): Promise<Results['run.get']>;
  list(query: Params<'run.list'>): Promise<Results['run.list']>;
  search(query: Params<'run.search'>): Promise<Results['run.search']>;
  usage(query: Params<'usage'>): Promise<Results['usage']>;
  conversationUsage(id: string): Promise<Results['conversation.usage']>;
}

/**
 * Opens the runs, calls `use`, and closes them. Throws daemon_not_running if there is no log.
 * `says`: whether a note names the log as the source.
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
        usage: (query) => client.call('usage', query),
        conversationUsage: (id) => client.call('conversation.usage', { id }),
      }),
    log: ({ withStoredRuns }) => withStoredRuns(paths, use, says),
  });
}

interface Sources<T> {
  daemon(client: ControlClient): Promise<T>;
  log(stored: typeof import('./stored-log.ts')): Promise<T>;
}

/** Asks the running daemon, and closes the connection. Without a daemon it reads the log. */
export async function fromDaemonOrLog<T>(paths: Paths, { daemon, log }: Sources<T>): Promise<T> {
  let client: ControlClient;
  try {
    client = await connectDaemon(paths);
  } catch (error) {
    if (!hasCode(error, 'daemon_not_running')) throw error;
    return log(await import('./stored-log.ts'));
  }
  try {
    return await daemon(client);
  } finally {
    client.close();
  }
}
