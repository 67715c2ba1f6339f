import type { DaemonSnapshot } from '../../machines/daemon.ts';
import { SvcError } from '../errors.ts';
import type { Parts } from './parts.ts';

/**
 * A stop does not wait for a log that cannot be written: what was accepted is in the log, and the next start recovers it.
 *
 * 1. While the daemon stops, a log that takes no facts for `stop_blocked_ms` ends this life without them.
 * 2. On a full disk nothing is lost: all runs are handed over, and the stop is a clean one but for its own facts.
 * 3. When the disk does not answer, the outcome of the last commit is not known: the stop fails with that reason.
 */
export function endBlockedStop(
  parts: BlockedParts,
  end: (failure: SvcError | null) => void,
): { check(): void; close(): void } {
  const { kernel, clock, streams, config } = parts;
  let callOff: (() => void) | null = null;
  const forget = () => {
    callOff?.();
    callOff = null;
  };
  const check = () => {
    const isStopping = kernel.tail<DaemonSnapshot>(streams.daemon)?.matches('stopping') === true;
    if (kernel.stalled === null || !isStopping || callOff !== null) return;
    callOff = clock.after(config.limits.stop_blocked_ms, () => void endUnrecorded(parts).then(end));
  };
  const listening = [kernel.stalls.onStall(check), kernel.stalls.onResume(forget)];
  const close = () => {
    forget();
    for (const stop of listening) stop();
  };
  return { check, close };
}

/** How this life ends without a word in its log. */
export async function endUnrecorded({
  kernel,
  store,
  stopReports,
  log,
}: BlockedParts): Promise<SvcError | null> {
  const cause = kernel.stalled;
  if (cause === null) return new SvcError('stop_timed_out');
  if (cause.code === 'store_stalled')
    return new SvcError('store_stalled', UNANSWERED, {
      cause,
      hint: 'Look at the disk, then run: svc start',
    });
  try {
    const { unfinished } = await store.countRuns();
    stopReports.endUnrecorded(stopReports.report(unfinished));
    log.warn(
      { handed_over: unfinished },
      'The disk is full: the event log does not say that the daemon stopped. The next start recovers its runs.',
    );
    return null;
  } catch (error) {
    return new SvcError('store_full', undefined, { cause: error });
  }
}

type BlockedParts = Pick<
  Parts,
  'kernel' | 'clock' | 'store' | 'streams' | 'config' | 'stopReports' | 'log'
>;

const UNANSWERED =
  'The disk does not answer: the event log does not say that the daemon stopped. The next start recovers its runs.';
