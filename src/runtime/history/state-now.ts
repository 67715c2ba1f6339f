import type { DaemonSnapshot } from '../../../machines/daemon/chart.ts';
import type { RunRecord, StateSnapshot, StatusRecord } from '../../contract/contract.ts';
import { isoTime } from '../../kernel/clock.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { DaemonKey } from '../../kernel/stream.ts';
import type { Limits } from '../../limits.ts';
import type { EventStore } from '../../store/port.ts';
import { engineSnapshots } from '../health/engines.ts';
import type { Providers } from '../providers/providers.ts';
import type { Scheduler } from '../runs/scheduler.ts';
import { instancesOf } from './instances.ts';
import { engineStates, SHOWN_AFTER_MS, withinBytes } from './records.ts';

export interface CurrentSources {
  kernel: Kernel;
  store: Pick<EventStore, 'readAll'>;
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
  { kernel, scheduler, limits, streams, getRun }: CurrentSources,
  now: number,
): Promise<RunRecord[]> {
  const known = [...scheduler.activeRuns(), ...scheduler.waitingRuns()];
  // The lists have runs whose acceptance is not durable yet.
  const unfinished = known.filter((id) => (kernel.instance(id)?.version ?? 0) > 0);
  const ids = new Set([
    ...unfinished,
    ...settledSince(kernel.instance(streams.daemon)?.recent ?? [], now - SHOWN_AFTER_MS),
  ]);
  const runs = await Promise.all(
    [...ids].slice(0, limits.snapshot_runs).map((id) => getRun(id).catch(() => null)),
  );
  return runs.filter((run) => run !== null);
}

/** Runs that ended since then by the daemon's events, latest first. */
export function settledSince(
  daemon_events: readonly { type: string; at: number; data: Record<string, unknown> }[],
  since: number,
): string[] {
  return daemon_events
    .filter(({ type, at }) => type === 'daemon.run_settled' && at >= since)
    .map(({ data }) => String(data.run_id))
    .reverse();
}
