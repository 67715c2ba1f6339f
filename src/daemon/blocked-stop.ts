import { SvcError } from '../errors.ts';
import type { Clock } from '../kernel/clock.ts';
import type { Parts } from './parts.ts';

/**
 * Ends a stop that cannot write the log: what was accepted is in the log, and the next start
 * recovers it.
 *
 * 1. A stop ends without the log after `stop_blocked_ms` in which no commit was made.
 * 2. On a full disk nothing is lost: all runs are handed over, and the stop is clean except for its
 *    own events.
 * 3. If the disk does not answer, the outcome of the last commit is unknown: the stop fails with
 *    that reason.
 */
export function endBlockedStop(
  parts: BlockedParts,
  end: (failure: SvcError | null) => void,
  signal: AbortSignal,
): void {
  const { kernel, clock, streams, config, stopRequests } = parts;
  let waiting: AbortController | null = null;
  const forget = () => {
    waiting?.abort();
    waiting = null;
  };
  const check = () => {
    const isStopping = kernel.tail(streams.daemon)?.hasTag('stopping') === true;
    if (signal.aborted || kernel.stalled === null || !isStopping || waiting !== null) return;
    waiting = new AbortController();
    const call = () => void endUnrecorded(parts).then(end);
    clock.after(config.limits.stop_blocked_ms, call, waiting.signal);
  };
  kernel.stalls.onStall(check, signal);
  kernel.stalls.onResume(forget, signal);
  // A request is heard before its event is proposed.
  stopRequests.subscribe(() => queueMicrotask(check), signal);
  signal.addEventListener('abort', forget);
}

/** How a boot ends when its end cannot be recorded. */
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
      'The disk is full: the event log does not say that the daemon stopped. ' +
        'The next start recovers its runs.',
    );
    return null;
  } catch (error) {
    return new SvcError('store_full', undefined, { cause: error });
  }
}

type BlockedParts = { clock: Clock } & Pick<
  Parts,
  'kernel' | 'store' | 'streams' | 'config' | 'stopReports' | 'stopRequests' | 'log'
>;

const UNANSWERED =
  'The disk does not answer: the event log does not say that the daemon stopped. ' +
  'The next start recovers its runs.';
