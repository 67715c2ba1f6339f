/**
 * Ctrl-C, and the other ways to be asked to end.
 *
 * 1. The first aborts the signal: whoever waits stops its work and comes to an end.
 * 2. The second ends the process at once, with the exit code of the first.
 */
export interface Interrupt {
  readonly signal: AbortSignal;
  /** Leaves the signals to the system again. */
  release(): void;
}

export const INTERRUPTED = 130;

/** `onFirst` is called at the first: what there is to say to whoever now waits. */
export function onInterrupt(onFirst: () => void = () => {}): Interrupt {
  const controller = new AbortController();
  const heard = () => {
    if (controller.signal.aborted) process.exit(INTERRUPTED);
    controller.abort();
    onFirst();
  };
  process.on('SIGINT', heard);
  process.on('SIGTERM', heard);
  return {
    signal: controller.signal,
    release: () => {
      process.off('SIGINT', heard);
      process.off('SIGTERM', heard);
    },
  };
}
