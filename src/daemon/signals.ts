import { endsAtHangup } from '../home/terminal.ts';

/**
 * The first signal drains, the second forces, the third exits at once; until `ended` aborts.
 * `onHangup` is called instead where SIGHUP is none of them.
 */
export function listenToSignals(
  stop: (mode: 'drain' | 'force' | 'exit') => void,
  ended: AbortSignal,
  onHangup: () => void,
): void {
  let count = 0;
  const listener = () => {
    count += 1;
    stop(count === 1 ? 'drain' : count === 2 ? 'force' : 'exit');
  };
  const listeners = {
    SIGINT: listener,
    SIGTERM: listener,
    SIGHUP: endsAtHangup() ? listener : onHangup,
  };
  for (const [signal, call] of Object.entries(listeners)) {
    process.on(signal, call);
    ended.addEventListener('abort', () => process.off(signal, call));
  }
}
