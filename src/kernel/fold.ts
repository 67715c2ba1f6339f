import type { AnyMachineSnapshot } from 'xstate';
import { init, step } from '../../machines/step.ts';
import { type EventStore, toEvent } from '../store/port.ts';
import { Instance } from './instance.ts';
import { pagesOf } from './pages.ts';
import { definitionOf } from './registry.ts';

/**
 * One stream of the store, folded up to a position of the log; undefined when there is none, or its
 * beginning was removed. Its effects are not asked for again. `start` is an instance of this stream
 * to go on from, and `onEvent` sees it after each event.
 */
export async function foldStream(
  store: Pick<EventStore, 'readStream'>,
  stream: string,
  until_seq = Number.POSITIVE_INFINITY,
  start?: Instance,
  onEvent: (instance: Instance) => void = () => {},
): Promise<Instance | undefined> {
  const { machine } = definitionOf(stream);
  let instance = start;
  for await (const page of pagesOf(store, stream, (start?.version ?? 0) + 1)) {
    for (const stored of page) {
      if (stored.seq > until_seq || (instance === undefined && stored.version !== 1))
        return instance;
      const event = toEvent(stored);
      const snapshot: AnyMachineSnapshot =
        instance === undefined
          ? init(machine, event).snapshot
          : step(machine, instance.snapshot, event).snapshot;
      instance ??= new Instance(stream, snapshot, 0);
      instance.commit(stored, snapshot);
      instance.tail = snapshot;
      instance.tailVersion = stored.version;
      onEvent(instance);
    }
  }
  return instance;
}
