import type { AnyMachineSnapshot } from 'xstate';
import { init, step } from '../../machines/step.ts';
import { type EventStore, toFact } from '../store/port.ts';
import { Instance } from './instance.ts';
import { pagesOf } from './pages.ts';
import { definitionOf } from './registry.ts';

/**
 * One stream of the store, folded up to a position of the log; undefined when there is none, or its
 * beginning was removed. Its effects are not asked for again. `start` is an instance of this stream
 * to go on from, and `onFact` sees it after each fact.
 */
export async function foldStream(
  store: Pick<EventStore, 'readStream'>,
  stream: string,
  until_seq = Number.POSITIVE_INFINITY,
  start?: Instance,
  onFact: (instance: Instance) => void = () => {},
): Promise<Instance | undefined> {
  const { machine } = definitionOf(stream);
  let instance = start;
  for await (const page of pagesOf(store, stream, (start?.version ?? 0) + 1)) {
    for (const event of page) {
      if (event.seq > until_seq || (instance === undefined && event.version !== 1)) return instance;
      const fact = toFact(event);
      const snapshot: AnyMachineSnapshot =
        instance === undefined
          ? init(machine, fact).snapshot
          : step(machine, instance.snapshot, fact).snapshot;
      instance ??= new Instance(stream, snapshot, 0);
      instance.commit(event, snapshot);
      instance.tail = snapshot;
      instance.tailVersion = event.version;
      onFact(instance);
    }
  }
  return instance;
}
