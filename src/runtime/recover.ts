import { type DaemonSnapshot, endingOf } from '../../machines/daemon.ts';
import type { LastBoot } from '../../machines/events.ts';
import { afterCrash, type RunSnapshot } from '../../machines/run.ts';
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

/**
 * Settles what the last boot left: queued runs go back into the queue in their order, each other one gets its end.
 * It costs what was unfinished, not what has ever happened.
 */
export async function recoverRuns(kernel: Kernel, store: EventStore, dispatch: Dispatch): Promise<{ queued: number; ended: number }> {
  const ends: Promise<boolean>[] = [];
  for (const run_id of await store.unfinishedRuns()) {
    const snapshot = (await kernel.load(run_id)) as RunSnapshot | undefined;
    if (snapshot === undefined) continue;
    const end = afterCrash(snapshot);
    if (end === null) dispatch.requeue(run_id, snapshot);
    else ends.push(kernel.submit(run_id, end));
  }
  await Promise.all(ends);
  // Some may have passed their deadline meanwhile and are being ended; they too are settled later.
  return { queued: dispatch.queued + dispatch.running, ended: ends.length };
}
