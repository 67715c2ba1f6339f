import type { AnyMachineSnapshot } from 'xstate';
import type { MachineEvent } from '../../machines/events.ts';
import { toFact } from '../store/port.ts';
import type { Kernel } from './kernel.ts';
import type { StreamPort } from './port.ts';

/** One machine of the kernel for the part that lives with it. The machine need not exist yet. */
export function streamPort<S extends AnyMachineSnapshot, E extends MachineEvent>(
  kernel: Kernel,
  stream: string,
): StreamPort<S, E> {
  return {
    snapshot: () => kernel.snapshot<S>(stream) as S,
    tryAppend: (event) => kernel.tryAppend(stream, event),
    onFact: (listener) =>
      kernel.onFact((event) => {
        if (event.stream === stream) listener(toFact(event) as E);
      }),
  };
}
