import type { EngineSnapshot } from '../../../machines/engine.ts';
import type { EngineEvent } from '../../../machines/events.ts';
import type { StreamPort } from '../../kernel/port.ts';

export type EnginePort = StreamPort<EngineSnapshot, EngineEvent>;

/**
 * Looks at the engine's machine after each of its facts, until `look` returns something. No fact is missed between a look and the
 * wait that follows it. `look` may propose facts. Throws the signal's reason.
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
