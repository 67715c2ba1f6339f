import type { AnyMachineSnapshot } from 'xstate';
import { init, step } from '../../machines/step.ts';
import { type EventStore, toFact } from '../store/port.ts';
import { Cell } from './instance.ts';
import { pagesOf } from './pages.ts';
import { kindOf } from './registry.ts';

/**
 * One stream of the store, folded up to a position of the log; undefined when there is none, or its beginning was removed. Its effects are not
 * asked for again. `start` is a cell of this stream to go on from, and `onFact` sees it after each fact.
 */
export async function foldStream(
  store: Pick<EventStore, 'readStream'>,
  stream: string,
  until_seq = Number.POSITIVE_INFINITY,
  start?: Cell,
  onFact: (cell: Cell) => void = () => {},
): Promise<Cell | undefined> {
  const { machine } = kindOf(stream);
  let cell = start;
  for await (const page of pagesOf(store, stream, (start?.version ?? 0) + 1)) {
    for (const event of page) {
      if (event.seq > until_seq || (cell === undefined && event.version !== 1)) return cell;
      const fact = toFact(event);
      const snapshot: AnyMachineSnapshot =
        cell === undefined
          ? init(machine, fact).snapshot
          : step(machine, cell.snapshot, fact).snapshot;
      cell ??= new Cell(stream, snapshot, 0);
      cell.commit(event, snapshot);
      cell.tail = snapshot;
      cell.tailVersion = event.version;
      onFact(cell);
    }
  }
  return cell;
}
