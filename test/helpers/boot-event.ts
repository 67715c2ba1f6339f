import type { DaemonCreated } from '../../machines/daemon/context.ts';
import type { NewEvent } from '../../machines/events.ts';

/** The first event of a daemon, from one process on one host. */
export function bootStarted(
  boot_id: string,
  capacity: number,
  start_deadline_at: number,
): NewEvent<DaemonCreated> {
  return {
    type: 'daemon.boot_started',
    boot_id,
    host_boot_id: 'host',
    pid: 1,
    version: '0',
    capacity,
    start_deadline_at,
    counts_runs: true,
  };
}
