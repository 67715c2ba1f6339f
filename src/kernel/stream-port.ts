import type { Kernel } from './kernel.ts';
import type { StreamPort } from './port.ts';
import type { EventOf, SnapshotOf, StreamKey } from './stream.ts';

/** One machine of the kernel, for the part that does its work. The machine need not exist yet. */
export function streamPort<K extends StreamKey>(
  kernel: Kernel,
  stream: K,
): StreamPort<SnapshotOf<K>, EventOf<K>> {
  return {
    snapshot: () => kernel.snapshot(stream) as unknown as SnapshotOf<K>,
    tryAppend: (event) => kernel.tryAppend(stream, event),
    subscribe: (listener, signal) => kernel.subscribe({ stream }, listener, signal),
  };
}
