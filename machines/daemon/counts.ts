import { isTerminalEvent } from '../run/context.ts';
import type { DaemonSnapshot } from './chart.ts';
import type { DaemonEvent } from './context.ts';

/**
 * The event of the daemon that follows from an event of a run which its boot has accepted; null if
 * none does. The log has only the event of the run.
 *
 * 1. `run.accepted` admits the run, and its terminal event settles it.
 * 2. A daemon that stops also settles runs that have not ended. It records each such settlement.
 * 3. A boot settles a run that it did not accept, or admits one of another node. No event of the
 *    run says so, thus the boot records that too.
 * 4. The two events of a run are removed together, so the count of the other runs stays.
 */
export function countOf(
  daemon: DaemonSnapshot,
  run: { type: string; run_id: string; at: number },
): DaemonEvent | null {
  const { type, run_id, at } = run;
  if (!daemon.context.counts_runs) return null;
  if (type === 'run.accepted') return { type: 'daemon.run_admitted', run_id, at };
  return isTerminalEvent(type) && countsEnds(daemon)
    ? { type: 'daemon.run_settled', run_id, at }
    : null;
}

/** Whether the end of a run settles it. */
export function countsEnds(daemon: DaemonSnapshot): boolean {
  return daemon.context.counts_runs && daemon.hasTag('stable');
}
