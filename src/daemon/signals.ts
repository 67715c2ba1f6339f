/** The first signal drains, the second forces, the third leaves at once. Returns the way to stop listening. */
export function listenToSignals(stop: (mode: 'drain' | 'force' | 'exit') => void): () => void {
  let count = 0;
  const heard = () => {
    count += 1;
    stop(count === 1 ? 'drain' : count === 2 ? 'force' : 'exit');
  };
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, heard);
  return () => {
    for (const signal of signals) process.off(signal, heard);
  };
}
