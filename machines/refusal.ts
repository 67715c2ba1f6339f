import type { DaemonSnapshot } from './daemon.ts';
import { isIn } from './step.ts';

/** Why the daemon starts no new work. */
export type Refusal = 'not_ready' | 'busy' | 'store_full' | 'store_stalled' | 'daemon_stopping';

/** Why the daemon refuses a new run in this state; null when it accepts one. */
export function refusal(daemon: DaemonSnapshot | undefined): Refusal | null {
  if (daemon === undefined || isIn(daemon, 'starting')) return 'not_ready';
  if (isIn(daemon, 'disk_full')) return 'store_full';
  if (isIn(daemon, 'disk_stalled')) return 'store_stalled';
  if (isIn(daemon, 'saturated')) return 'busy';
  return isIn(daemon, 'ready') || isIn(daemon, 'accepting') ? null : 'daemon_stopping';
}
