import type { AnyMachineSnapshot } from 'xstate';
import { type DaemonSnapshot, readyWhen } from '../../../machines/daemon/chart.ts';
import type { EngineSnapshot } from '../../../machines/engine.ts';
import type { ProviderSnapshot } from '../../../machines/provider/chart.ts';
import type { PullSnapshot } from '../../../machines/pull.ts';
import type { RunSnapshot } from '../../../machines/run/chart.ts';
import { can, init, stateName, statePath, step } from '../../../machines/step.ts';
import { machineOf } from '../../../src/kernel/registry.ts';
import { type StoredEvent, toEvent } from '../../../src/kernel/store/port.ts';
import { engineStates, providerState } from '../../../src/observability/history/records.ts';
import { pullRecord } from '../../../src/runtime/pulls/record.ts';
import { runRecord } from '../../../src/runtime/runs/record.ts';

/**
 * What users see of a stream while it is recorded. Names of inner states are in `state_paths` only.
 */
export interface Outcome {
  /** What recorded it: a daemon process, or the kernel with a store in memory. */
  by: 'daemon' | 'kernel';
  /** After each event. */
  states: string[];
  /** The same, with the inner states. */
  state_paths: string[];
  /** After the last event. */
  record: Record<string, unknown>;
}

/** Folds one stream. Throws when its machine does not accept an event. */
export function outcomeOf(events: readonly StoredEvent[], by: Outcome['by'] = 'daemon'): Outcome {
  const [first] = events;
  if (first === undefined) throw new Error('no events');
  const machine = machineOf(first.stream);
  let snapshot: AnyMachineSnapshot | null = null;
  const outcome: Outcome = { by, states: [], state_paths: [], record: {} };
  for (const event of events) {
    const accepted = toEvent(event);
    if (snapshot !== null && !can(snapshot, accepted))
      throw new Error(`${event.stream} was ${statePath(snapshot)} when ${event.type} was recorded`);
    snapshot =
      snapshot === null
        ? (init(machine, accepted).snapshot as AnyMachineSnapshot)
        : step(machine, snapshot, accepted).snapshot;
    outcome.states.push(stateName(snapshot));
    outcome.state_paths.push(statePath(snapshot));
  }
  const last = events.at(-1) as StoredEvent;
  const { state_path: _, ...record } = recordOf(machine.id, snapshot as AnyMachineSnapshot, last);
  outcome.record = JSON.parse(JSON.stringify(record)) as Record<string, unknown>;
  return outcome;
}

function recordOf(
  machine: string,
  snapshot: AnyMachineSnapshot,
  { seq, at }: StoredEvent,
): Record<string, unknown> {
  if (machine === 'run') return { ...runRecord(snapshot as RunSnapshot, seq) };
  if (machine === 'pull') return { ...pullRecord(snapshot as PullSnapshot, null) };
  if (machine === 'provider') return { ...providerState(snapshot as ProviderSnapshot, at) };
  if (machine === 'engine') return { ...engineStates([snapshot as EngineSnapshot], at).engine };
  return daemonRecord(snapshot as DaemonSnapshot);
}

function daemonRecord(daemon: DaemonSnapshot): Record<string, unknown> {
  const {
    boot_id,
    version,
    addresses,
    last_boot,
    unsettled,
    pruned_runs,
    stop_requested_by,
    stop_report,
    error,
  } = daemon.context;
  const health = {
    live: daemon.hasTag('live'),
    ready: daemon.hasTag('ready'),
    ready_when: readyWhen(daemon),
  };
  return {
    state: stateName(daemon),
    ...health,
    boot_id,
    version,
    addresses,
    last_boot,
    unsettled,
    pruned_runs,
    stop_requested_by,
    stop_report,
    error,
  };
}
