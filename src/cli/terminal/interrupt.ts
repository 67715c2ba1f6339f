import { endsAtHangup } from '../../home/terminal.ts';

/**
 * Ctrl-C (SIGINT) and SIGTERM.
 *
 * 1. The first aborts the signal, and the command ends in order.
 * 2. The second ends the process at once, with the same exit code.
 */
export interface Interrupt {
  readonly signal: AbortSignal;
  /** Restores the default handling of the signals. */
  release(): void;
}

export const INTERRUPTED = 130;

/** Keeps a command that takes time, where SIGHUP does not end it. */
export function outliveTerminal(): void {
  if (process.listenerCount('SIGHUP') === 0 && !endsAtHangup()) process.on('SIGHUP', () => {});
}

/** Calls `onFirst` at the first interrupt. */
export function onInterrupt(onFirst: () => void = () => {}): Interrupt {
  const controller = new AbortController();
  const onSignal = () => {
    if (controller.signal.aborted) process.exit(INTERRUPTED);
    controller.abort();
    onFirst();
  };
  outliveTerminal();
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  return {
    signal: controller.signal,
    release: () => {
      process.off('SIGINT', onSignal);
      process.off('SIGTERM', onSignal);
    },
  };
}

/** Resolves early when the signal aborts. */
export async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  const { setTimeout: delay } = await import('node:timers/promises');
  await delay(ms, undefined, { signal }).catch(() => {});
}
