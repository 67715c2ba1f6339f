import type { Context } from '../context.ts';
import { note } from '../print/output.ts';

/** Starts a daemon if none runs, and waits until it is ready. */
export async function ensureDaemon({ paths, json }: Context, { quiet = json } = {}): Promise<void> {
  const { startOrExplain } = await import('../daemon/start.ts');
  const { WAIT } = await import('../daemon/start-daemon.ts');
  const onStart = () => quiet || note('Starting the daemon (svc stop ends it).');
  await startOrExplain({ paths, flags: {}, wait_ms: WAIT.default_ms, onStart }, quiet);
}
