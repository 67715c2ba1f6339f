import { INTERRUPTED, onInterrupt, sleep } from '../../terminal/interrupt.ts';
import type { StatusResult } from './find-status.ts';

const POLL_MS = 500;

/** Shows the status now and after each change, until interrupted. */
export async function watchStatus(
  find: () => Promise<StatusResult>,
  show: (found: StatusResult) => Promise<void>,
): Promise<number> {
  const interrupt = onInterrupt();
  let last = '';
  while (!interrupt.signal.aborted) {
    const found = await find();
    // Each event moves the position in the log, also where nothing else changes.
    const now = JSON.stringify({ ...found.status, seq: null });
    if (now !== last) await show(found);
    last = now;
    await sleep(POLL_MS, interrupt.signal);
  }
  interrupt.release();
  return INTERRUPTED;
}
