/** The first signal drains, the second forces, the third exits at once; until `ended` aborts. */
export function listenToSignals(
  stop: (mode: 'drain' | 'force' | 'exit') => void,
  ended: AbortSignal,
): void {
  let count = 0;
  const listener = () => {
    count += 1;
    stop(count === 1 ? 'drain' : count === 2 ? 'force' : 'exit');
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, listener);
    ended.addEventListener('abort', () => process.off(signal, listener));
  }
}
