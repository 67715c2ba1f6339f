import type { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { EventStore } from '../../store/port.ts';

/**
 * A disk that does not answer may do so for ever, and a client waits for what it asked. So what needs the log is refused with store_stalled:
 * at once while a commit is late, and when one becomes late meanwhile. A full disk is no such case: what is there can be read.
 */
export function unlessLate<T>(kernel: Kernel, ask: () => Promise<T>): Promise<T> {
  return unlessStalled(kernel, ask, (cause) => cause.code === 'store_stalled');
}

/** What has to be recorded is refused on a full disk too, with store_full. A commit that is under way may come into effect later. */
export async function unlessStalled<T>(
  kernel: Kernel,
  ask: () => Promise<T>,
  isRefused = (_: SvcError) => true,
): Promise<T> {
  if (kernel.stalled !== null && isRefused(kernel.stalled)) throw kernel.stalled;
  const { promise: stalled, reject } = Promise.withResolvers<never>();
  const listening = new AbortController();
  kernel.stalls.onStall((cause) => isRefused(cause) && reject(cause), listening.signal);
  try {
    return await Promise.race([ask(), stalled]);
  } finally {
    listening.abort();
  }
}

/** The store as requests see it: none of them waits for a disk that does not answer. */
export function answeringStore(store: EventStore, kernel: Kernel): EventStore {
  const methods = Object.entries(store) as [string, (...query: unknown[]) => Promise<unknown>][];
  const answering = methods.map(([name, method]) => [
    name,
    (...query: unknown[]) => unlessLate(kernel, () => method(...query)),
  ]);
  return Object.fromEntries(answering) as EventStore;
}
