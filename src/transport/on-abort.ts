/**
 * Calls once when the signal aborts. Returns a function that ends the wait.
 *
 * Thousands of streams wait for the same signals: that of their listener and that of their token.
 * An EventTarget compares each new listener with all others, so a signal has one listener here.
 */
export function onAbort(signal: AbortSignal, call: () => void): () => void {
  const own = () => call();
  const calls = waiting.get(signal) ?? listen(signal);
  calls.add(own);
  return () => void calls.delete(own);
}

const waiting = new WeakMap<AbortSignal, Set<() => void>>();

function listen(signal: AbortSignal): Set<() => void> {
  const calls = new Set<() => void>();
  waiting.set(signal, calls);
  const all = () => {
    for (const call of calls) call();
    calls.clear();
  };
  signal.addEventListener('abort', all, { once: true });
  return calls;
}
