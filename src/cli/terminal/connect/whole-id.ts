import type { Paths } from '../../../home/paths.ts';
import { isWholeId } from '../../../runtime/runs/find.ts';
import { withDaemon } from './ask-daemon.ts';
import { askHome } from './home.ts';

/**
 * The id of a run that a user wrote as `last` or by its beginning. A command that asks twice needs
 * it: `last` may be another run by then.
 */
export async function wholeId(client: Finder, written: string): Promise<string> {
  return isWholeId(written) ? written : (await client.call('run.find', { id: written })).id;
}

/** A client of the daemon, or of the files of a home. */
interface Finder {
  call(method: 'run.find', params: { id: string }): Promise<{ id: string }>;
}

/** The whole id of a run in the log, with or without a daemon. Throws run_unknown. */
export async function knownId(paths: Paths, written: string): Promise<string> {
  return (await askHome(paths, 'run.get', { id: written })).answer.id;
}

/** The whole id, over its own connection. Throws daemon_not_running. */
export async function wholeIdOf(paths: Paths, written: string): Promise<string> {
  return isWholeId(written) ? written : withDaemon(paths, (client) => wholeId(client, written));
}
