import { CANCELLED_BY_DISK_FULL } from '../../../machines/run-context.ts';
import { hasCode, SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { RunKey } from '../../kernel/stream.ts';
import { withdrawn } from '../runs/run-errors.ts';

/**
 * Resolves when the run is durable, but does not wait for a disk that is full or stalled. Then it
 * refuses the run and withdraws it, so that the run does not execute later without a client.
 * Throws store_full, store_stalled, and run_unconfirmed if the log failed.
 */
export async function unlessWithdrawn(
  kernel: Kernel,
  run_id: RunKey,
  recorded: Promise<void>,
): Promise<void> {
  let unlisten = () => {};
  try {
    await new Promise<void>((resolve, reject) => {
      unlisten = kernel.stalls.onStall((cause) =>
        reject(cause.code === 'store_stalled' ? withdrawn(cause) : cause),
      );
      recorded.then(resolve, reject);
    });
  } catch (error) {
    if (hasCode(error, 'store_failed', 'store_corrupt'))
      throw new SvcError('run_unconfirmed', undefined, { cause: error });
    if (kernel.stalled !== null)
      kernel
        .tryAppend(run_id, { type: 'run.cancel_requested', by: CANCELLED_BY_DISK_FULL })
        .catch(() => {});
    throw error;
  } finally {
    unlisten();
  }
}
