import type { Paths } from '../../../home/paths.ts';
import { connectDaemon } from './connect-daemon.ts';

/**
 * Waits for a daemon that takes runs: the next version, or one that the user starts again. False:
 * none came in time, or the signal aborted.
 */
export async function untilReady(
  paths: Paths,
  { signal, wait_ms = RETURN_MS }: { signal?: AbortSignal; wait_ms?: number } = {},
): Promise<boolean> {
  for (const end = performance.now() + wait_ms; performance.now() < end; ) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    if (signal?.aborted) return false;
    const client = await connectDaemon(paths).catch(() => null);
    const health = await client?.call('health').catch(() => null);
    client?.close();
    if (health?.ready) return true;
  }
  return false;
}

/** For the user to start a stopped daemon again: a restart. */
const RETURN_MS = 15_000;
const POLL_MS = 100;
