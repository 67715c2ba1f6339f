import { anySignal } from './signals.ts';

/** Calls listeners at each change, and wakes those that wait for the next one. */
export class Notifier<T = void> {
  private readonly listeners = new Set<(value: T) => void>();

  /** Calls the listener at each change until the signal aborts. Returns a function that ends it. */
  subscribe(listener: (value: T) => void, signal?: AbortSignal): () => void {
    const end = () => void this.listeners.delete(listener);
    if (signal?.aborted) return end;
    this.listeners.add(listener);
    signal?.addEventListener('abort', end);
    return end;
  }

  /** Resolves at the next change, or when the signal aborts. */
  next(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const wake = () => {
        this.listeners.delete(wake);
        signal?.removeEventListener('abort', wake);
        resolve();
      };
      this.listeners.add(wake);
      signal?.addEventListener('abort', wake);
    });
  }

  /**
   * Calls `look` now and after each change until it returns a value. A change during `look` calls
   * it again. Throws the signal's reason.
   */
  async waitFor<V>(look: () => V | null | Promise<V | null>, signal: AbortSignal): Promise<V> {
    const found = new AbortController();
    const over = anySignal([signal, found.signal]);
    try {
      for (;;) {
        signal.throwIfAborted();
        const changed = this.next(over);
        const value = await look();
        if (value !== null) return value;
        await changed;
      }
    } finally {
      found.abort(FOUND);
    }
  }

  notify(value: T): void {
    if (this.listeners.size === 0) return;
    for (const listener of [...this.listeners]) listener(value);
  }
}

/** An abort without a reason would make a new error with its stack for each wait. */
const FOUND = new Error('The wait is over.');
