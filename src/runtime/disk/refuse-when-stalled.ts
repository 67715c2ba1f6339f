import type { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { EventStore } from '../../kernel/store/port.ts';

/**
 * Rejects with store_stalled while a commit is late, or when one becomes late: a stalled disk may
 * never answer. A full disk still answers reads, so it rejects nothing here.
 */
export function rejectWhenLate<T>(kernel: Kernel, ask: () => Promise<T>): Promise<T> {
  return rejectWhenStalled(kernel, ask, (cause) => cause.code === 'store_stalled');
}

/**
 * Also rejects with store_full on a full disk, for work that appends. A commit in progress may
 * still take effect.
 */
export async function rejectWhenStalled<T>(
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

/**
 * A store for requests: none of them waits for a stalled disk. The disk may block the thread of the
 * log without a commit, such as when old runs are removed. Then a late read begins the stall. A
 * database answers reads concurrently, each within its own bound.
 */
export function withoutStalls(store: EventStore, kernel: Kernel, isDatabase: boolean): EventStore {
  const methods = Object.entries(store) as [string, (...query: unknown[]) => Promise<unknown>][];
  const answering = methods.map(([name, method]) => [
    name,
    (...query: unknown[]) =>
      rejectWhenLate(kernel, () =>
        isDatabase ? method(...query) : kernel.stalls.watchRead(method(...query)),
      ),
  ]);
  return Object.fromEntries(answering) as EventStore;
}
