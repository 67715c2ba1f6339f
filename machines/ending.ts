import type { DaemonCreated, DaemonEvent, Ending } from './events.ts';

/**
 * How a boot ended, from its first and its last event. A boot that recorded no end was killed, or
 * lost its power.
 */
export function endingOf(
  first: Pick<DaemonCreated, 'host_boot_id'>,
  last: DaemonEvent['type'] | DaemonCreated['type'],
  host_boot_id: string | null,
): Ending {
  switch (last) {
    case 'daemon.stopped':
      return 'clean';
    case 'daemon.failed':
    case 'daemon.start_deadline_passed':
    case 'daemon.close_deadline_passed':
      return 'failed';
  }
  const before = first.host_boot_id;
  return before !== null && host_boot_id !== null && before !== host_boot_id
    ? 'power_lost'
    : 'killed';
}
