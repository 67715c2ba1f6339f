import type { DaemonCreated, DaemonEvent, Ending } from './events.ts';

/**
 * How a boot ended, from its first and its last event. A boot that recorded no end was killed, or
 * lost its power. `rejoins`: its process goes on, because it only lost its lease.
 */
export function endingOf(
  first: Pick<DaemonCreated, 'host_boot_id'>,
  last: DaemonEvent['type'] | DaemonCreated['type'],
  host_boot_id: string | null,
  rejoins = false,
): Ending {
  switch (last) {
    case 'daemon.stopped':
      return 'clean';
    case 'daemon.failed':
    case 'daemon.start_deadline_passed':
    case 'daemon.close_deadline_passed':
      return 'failed';
  }
  if (rejoins) return 'lease_lost';
  const before = first.host_boot_id;
  return before !== null && host_boot_id !== null && before !== host_boot_id
    ? 'power_lost'
    : 'killed';
}

/** How a boot ended, in words that follow its name. */
export const ENDINGS: Readonly<Record<Ending, string>> = {
  clean: 'stopped',
  failed: 'failed; its log has the reason',
  killed: 'was killed, or crashed without a log line',
  power_lost: 'ended when the machine lost power',
  lease_lost: 'lost its lease, and the node has joined the fleet again',
};
