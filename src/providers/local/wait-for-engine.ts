import type { EngineSnapshot } from '../../../machines/engine.ts';
import type { EngineEvent } from '../../../machines/events.ts';
import type { StreamPort } from '../../kernel/port.ts';

export type EnginePort = StreamPort<EngineSnapshot, EngineEvent>;

/**
 * Calls `look` after each event of the engine until it returns a value. No event is missed between
 * two calls. `look` may append events. Throws the signal's reason.
 */
export async function waitForEngine<T>(
  engine: EnginePort,
  signal: AbortSignal,
  look: (snapshot: EngineSnapshot) => T | null | Promise<T | null>,
): Promise<T> {
  let ring = Promise.withResolvers<void>();
  const waiting = new AbortController();
  engine.subscribe(() => ring.resolve(), waiting.signal);
  const wake = () => ring.resolve();
  signal.addEventListener('abort', wake, { once: true });
  try {
    for (;;) {
      ring = Promise.withResolvers<void>();
      signal.throwIfAborted();
      const found = await look(engine.snapshot());
      if (found !== null) return found;
      await ring.promise;
    }
  } finally {
    signal.removeEventListener('abort', wake);
    waiting.abort();
  }
}
