import { type DaemonSnapshot, endingOf } from '../../machines/daemon.ts';
import type { LastBoot } from '../../machines/events.ts';
import type { RunSnapshot } from '../../machines/run.ts';
import { afterCrash } from '../../machines/run-next.ts';
import { statePath } from '../../machines/step.ts';
import { foldStream } from '../kernel/fold.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { EventStore } from '../store/store.ts';
import type { Dispatch } from './dispatch.ts';

/** How the boot before ended, as its own stream tells. */
export async function readLastBoot(store: EventStore, boot_id: string | null, host_boot_id: string | null): Promise<LastBoot | null> {
  if (boot_id === null) return null;
  const cell = await foldStream(store, `daemon:${boot_id}`);
  if (cell === undefined) return null;
  const snapshot = cell.snapshot as DaemonSnapshot;
  const { unfinished } = await store.countRuns();
  return { boot_id, ending: endingOf(snapshot, host_boot_id), at: cell.recent.at(-1)?.at ?? 0, state_path: statePath(snapshot), unfinished_runs: unfinished };
}

/** Time of the last recorded fact; null in an empty log. */
export async function lastTime(store: EventStore, last_seq: number): Promise<number | null> {
  const [last] = last_seq === 0 ? [] : await store.readAll(last_seq, 1);
  return last?.at ?? null;
}

/**
 * Settles what earlier lives of the daemon left: what waited waits again, in its order; what was cut off is taken up again or ends,
 * as its policy says. It costs what was unfinished, not what has ever happened.
 *
 * No deadline runs meanwhile: time in which no daemon ran counts for none, and the clock may have been set in between.
 * `last_at`: time of the last fact before this life; null: there is none.
 */
export async function recoverRuns(
  kernel: Kernel,
  store: EventStore,
  dispatch: Dispatch,
  last_at: number | null = null,
): Promise<{ queued: number; suspended: number; ended: number }> {
  const downtime_ms = last_at === null ? 0 : kernel.clock.now() - last_at;
  const recorded: Promise<boolean>[] = [];
  let [cut, ended] = [0, 0];
  for (const run_id of await store.unfinishedRuns()) {
    const snapshot = (await kernel.load(run_id)) as RunSnapshot | undefined;
    const fact = snapshot === undefined ? null : afterCrash(snapshot, downtime_ms);
    if (snapshot === undefined || fact === null) continue;
    recorded.push(kernel.submit(run_id, fact));
    if (fact.type === 'run.recovered') {
      if (!snapshot.matches('queued')) cut += 1;
      dispatch.takeUp(run_id, kernel.tail<RunSnapshot>(run_id) ?? snapshot);
    } else ended += 1;
  }
  await Promise.all(recorded);
  // Some may have passed their deadline meanwhile and be gone; those that are being ended are settled later.
  const unsettled = dispatch.queued + dispatch.running;
  const suspended = Math.min(cut, unsettled);
  return { queued: unsettled - suspended, suspended, ended };
}
