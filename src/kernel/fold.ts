import type { AnyMachineSnapshot } from 'xstate';
import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import { countOf } from '../../machines/daemon/counts.ts';
import { init, step } from '../../machines/step.ts';
import { Instance } from './instance.ts';
import { pagesOf } from './pages.ts';
import { machineOf, unknownKind } from './registry.ts';
import { type EventStore, type StoredEvent, toEvent } from './store/port.ts';

/**
 * One stream of the store, folded up to a position of the log; undefined when there is no such
 * stream, or its beginning was removed. Its effects are not performed again. `start` is an instance
 * of this stream to continue from, and `onEvent` sees it after each event.
 */
export async function foldStream(
  store: Pick<EventStore, 'readStream'>,
  stream: string,
  until_seq = Number.POSITIVE_INFINITY,
  start?: Instance,
  onEvent: (instance: Instance) => void = () => {},
): Promise<Instance | undefined> {
  let instance = start;
  for await (const page of pagesOf(store, stream, (start?.version ?? 0) + 1)) {
    for (const stored of page) {
      if (stored.seq > until_seq || (instance === undefined && stored.version !== 1))
        return instance;
      instance = foldEvent(instance, stored);
      onEvent(instance);
    }
  }
  return instance;
}

/** A stream whose events are in memory. */
export function streamIn(events: readonly StoredEvent[]): Pick<EventStore, 'readStream'> {
  return { readStream: async (_, fromVersion) => events.slice(fromVersion - 1) };
}

/** The instance after the next event of its stream; a new one for the first event. */
export function foldEvent(before: Instance | undefined, stored: StoredEvent): Instance {
  const machine = machineOf(stored.stream);
  if (before !== undefined && !machine.events.includes(stored.type)) throw unknownKind(stored.type);
  const event = toEvent(stored);
  const snapshot: AnyMachineSnapshot =
    before === undefined
      ? init(machine, event).snapshot
      : step(machine, before.snapshot, event).snapshot;
  const instance = before ?? new Instance(stored.stream, stored.boot_id, snapshot, 0);
  instance.commit(stored, snapshot);
  instance.tail = snapshot;
  instance.tailVersion = stored.version;
  return instance;
}

/** Counts a run at the daemon that accepted it. False if that changes nothing. */
export function foldCount(
  daemon: Instance,
  run: { seq: number; at: number; type: string; run_id: string },
): boolean {
  const before = daemon.snapshot as DaemonSnapshot;
  const event = countOf(before, run);
  const snapshot = event === null ? before : step(daemon.machine, before, event).snapshot;
  if (snapshot === before) return false;
  daemon.follow(run, snapshot);
  return true;
}
