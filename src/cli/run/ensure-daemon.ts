import type { Context } from '../terminal/context.ts';
import { note, warn } from '../terminal/print/output.ts';

/** Starts the daemon for a run that finds none, or that lost it. */
export type StartDaemon = (reason: 'absent' | 'lost') => Promise<void>;

/** Starts the daemon for a new run. Null: --no-start forbids it. */
export function starterOf(context: Context): StartDaemon | null {
  if (context.flags['no-start'] === true) return null;
  return (reason) => ensureDaemon(context, { quiet: context.json || reason === 'lost' });
}

/** Starts a daemon if none runs, and waits until it is ready. */
export async function ensureDaemon({ paths, json }: Context, { quiet = json } = {}): Promise<void> {
  const { startOrExplain } = await import('../upkeep/daemon/start.ts');
  const { WAIT } = await import('../upkeep/daemon/start-daemon.ts');
  const onStart = () => quiet || note('Starting the daemon (svc stop ends it).');
  const { started, status } = await startOrExplain(
    { paths, flags: {}, wait_ms: WAIT.default_ms, onStart },
    // Log lines are not part of a conversation, unless they are all there is to say.
    (error) => !quiet && error.code === 'internal',
  );
  if (started && !quiet && status.warning != null) warn(status.warning);
}
