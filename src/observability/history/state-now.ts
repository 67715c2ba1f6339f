import type { DaemonSnapshot } from '../../../machines/daemon/chart.ts';
import { isTerminalEvent } from '../../../machines/run/context.ts';
import { isoTime } from '../../async/clock.ts';
import type { RunRecord, StateSnapshot, StatusRecord } from '../../contract/contract.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { EventStore } from '../../kernel/store/port.ts';
import type { DaemonKey } from '../../kernel/stream.ts';
import type { Limits } from '../../limits.ts';
import type { Providers } from '../../runtime/providers/providers.ts';
import type { Scheduler } from '../../runtime/runs/scheduler.ts';
import { engineSnapshots } from '../health/engines.ts';
import { instancesOf } from './instances.ts';
import { engineStates, SHOWN_AFTER_MS, withinBytes } from './records.ts';

export interface CurrentSources {
  kernel: Kernel;
  store: Pick<EventStore, 'readAll' | 'runBounds'>;
  scheduler: Scheduler;
  providers: Providers;
  limits: Limits;
  streams: { daemon: DaemonKey };
  status(): StatusRecord;
  getRun(id: string): Promise<RunRecord>;
}

/** The present state, from memory. Only runs that have just ended are read from the store. */
export async function currentSnapshot(sources: CurrentSources): Promise<StateSnapshot> {
  const { kernel, scheduler, providers, limits, streams } = sources;
  const now = kernel.clock.now();
  const daemon = kernel.snapshot(streams.daemon) as DaemonSnapshot;
  const { home: _, ...status } = sources.status();
  const shown = {
    seq: kernel.durableSeq,
    at: isoTime(now),
    boot_id: daemon.context.boot_id,
    last_seq: kernel.durableSeq,
    status,
    instances: instancesOf(kernel.instances.values(), limits.snapshot_runs, now),
    queue: { length: scheduler.queued, capacity: daemon.context.capacity },
    providers: providers.list().map((provider) => ({ ...provider, state_path: provider.state })),
    ...engineStates(engineSnapshots(kernel.instances.values()), now),
  };
  const [first] = kernel.isOpen ? await sources.store.readAll(1, 1) : [];
  return {
    ...shown,
    first_seq: first?.seq ?? 0,
    runs: withinBytes(await currentRuns(sources, now), limits.snapshot_text_bytes),
  };
}

/**
 * Unfinished runs, and those that have just ended, latest first. A run that disappears meanwhile is
 * left out.
 */
async function currentRuns(
  { kernel, store, scheduler, limits, streams, getRun }: CurrentSources,
  now: number,
): Promise<RunRecord[]> {
  const known = [...scheduler.activeRuns(), ...scheduler.waitingRuns()];
  // The lists have runs whose acceptance is not durable yet.
  const unfinished = known.filter((id) => (kernel.instance(id)?.version ?? 0) > 0);
  const { boot_id } = (kernel.snapshot(streams.daemon) as DaemonSnapshot).context;
  const ended = kernel.isOpen
    ? await findEndedRuns(store, boot_id, kernel.durableSeq, now - SHOWN_AFTER_MS)
    : [];
  const ids = new Set([...unfinished, ...ended]);
  const runs = await Promise.all(
    [...ids].slice(0, limits.snapshot_runs).map((id) => getRun(id).catch(() => null)),
  );
  return runs.filter((run) => run !== null);
}

/** Runs that ended in a boot since then, up to a position, latest first. */
export async function findEndedRuns(
  store: Pick<EventStore, 'runBounds'>,
  boot_id: string,
  at: number,
  since: number,
): Promise<string[]> {
  const bounds = await store.runBounds(boot_id, at - LATEST, at);
  return bounds
    .filter((bound) => isTerminalEvent(bound.type) && bound.at >= since)
    .map(({ run_id }) => run_id)
    .reverse();
}

/** How many of the last events of the log may end shown runs. */
const LATEST = 10_000;
