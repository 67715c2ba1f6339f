import { hasCode } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { connectDaemon } from '../connect/connect-daemon.ts';
import type { Context } from '../context.ts';
import { note } from '../print/output.ts';

/** Sees to it that a daemon runs which takes runs: starts one unless that was forbidden, and waits for one that is starting. */
export async function ready({ paths, flags, json }: Context, { quiet = json } = {}): Promise<void> {
  if (await takesRuns(paths, flags['no-start'] === true)) return;
  const { startOrExplain } = await import('../daemon/start.ts');
  const { WAIT } = await import('../daemon/start-daemon.ts');
  const onStart = () => quiet || note('Starting the daemon (svc stop ends it).');
  await startOrExplain({ paths, flags: {}, wait_ms: WAIT.default_ms, onStart }, quiet);
}

/** Throws daemon_not_running when none may be started. */
async function takesRuns(paths: Paths, forbidden: boolean): Promise<boolean> {
  try {
    const client = await connectDaemon(paths);
    const { ready } = await client.call('health').finally(() => client.close());
    return ready || forbidden;
  } catch (error) {
    // One that is dying takes connections to the very end; whether there is one after it, the start finds out.
    if (!forbidden && hasCode(error, 'daemon_not_running', 'connection_lost')) return false;
    throw error;
  }
}
