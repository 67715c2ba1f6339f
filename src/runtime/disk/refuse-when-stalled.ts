import type { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { EventStore } from '../../store/port.ts';

/**
 * Rejects with store_stalled while a commit is late, or when one becomes late: a stalled disk may
 * never answer. A full disk still answers reads, so it rejects nothing here.
 */
export function unlessLate<T>(kernel: Kernel, ask: () => Promise<T>): Promise<T> {
  return unlessStalled(kernel, ask, (cause) => cause.code === 'store_stalled');
}

/**
 * Also rejects with store_full on a full disk, for work that appends. A commit in progress may
 * still take effect.
 */
export async function unlessStalled<T>(
  kernel: Kernel,
  ask: () => Promise<T>,
  isRefused = (_: SvcError) => true,
): Promise<T> {
  if (kernel.stalled !== null && isRefused(kernel.stalled)) throw kernel.stalled;
  const { promise: stalled, reject } = Promise.withResolvers<never>();
  const unlisten = kernel.stalls.onStall((cause) => isRefused(cause) && reject(cause));
  try {
    return await Promise.race([ask(), stalled]);
  } finally {
    unlisten();
  }
}

/** A store for requests: none of them waits for a stalled disk. */
export function answeringStore(store: EventStore, kernel: Kernel): EventStore {
  const methods = Object.entries(store) as [string, (...query: unknown[]) => Promise<unknown>][];
  const answering = methods.map(([name, method]) => [
    name,
    (...query: unknown[]) => unlessLate(kernel, () => method(...query)),
  ]);
  return Object.fromEntries(answering) as EventStore;
}
