/**
 * Calls once when the signal aborts. Returns a function that ends the wait.
 *
 * Thousands of streams wait for the same signals: that of their listener and that of their token.
 * An EventTarget compares each new listener with all others, so a signal has one listener here. The
 * waits are a linked list: each request enters it and leaves it several times.
 */
export function onAbort(signal: AbortSignal, call: () => void): () => void {
  const last = waiting.get(signal) ?? listen(signal);
  const entry: Wait = { call, before: last.before, after: last };
  entry.before.after = entry;
  last.before = entry;
  return () => leave(entry);
}

interface Wait {
  call: () => void;
  before: Wait;
  after: Wait;
}

/** By signal: the end of its list, which is before the first wait, too. */
const waiting = new WeakMap<AbortSignal, Wait>();

function listen(signal: AbortSignal): Wait {
  const end = { call: () => {} } as Wait;
  end.before = end;
  end.after = end;
  waiting.set(signal, end);
  const all = () => {
    for (let next = end.after; next !== end; next = end.after) {
      leave(next);
      next.call();
    }
  };
  signal.addEventListener('abort', all);
  return end;
}

/** A wait that has left points to itself, so it can leave again. */
function leave(wait: Wait): void {
  wait.before.after = wait.after;
  wait.after.before = wait.before;
  wait.before = wait;
  wait.after = wait;
}
