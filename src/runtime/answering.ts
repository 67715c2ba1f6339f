import type { Kernel } from '../kernel/kernel.ts';
import type { EventStore } from '../store/store.ts';

/**
 * A disk that does not answer may do so for ever, and a client waits for what it asked. So what needs the log is refused with store_stalled:
 * at once while a commit is late, and when one becomes late meanwhile. A full disk is no such case: what is there can be read.
 */
export async function unlessLate<T>(kernel: Kernel, ask: () => Promise<T>): Promise<T> {
  if (kernel.stalled?.code === 'store_stalled') throw kernel.stalled;
  const { promise: late, reject } = Promise.withResolvers<never>();
  const stopListening = kernel.stalls.onStall((cause) => cause.code === 'store_stalled' && reject(cause));
  try {
    return await Promise.race([ask(), late]);
  } finally {
    stopListening();
  }
}

/** The store as requests see it: none of them waits for a disk that does not answer. */
export function answeringStore(store: EventStore, kernel: Kernel): EventStore {
  const methods = Object.entries(store) as [string, (...query: unknown[]) => Promise<unknown>][];
  const answering = methods.map(([name, method]) => [name, (...query: unknown[]) => unlessLate(kernel, () => method(...query))]);
  return Object.fromEntries(answering) as EventStore;
}
