import type { Effects } from '../../machines/effects.ts';
import type { MachineEvent, NewEvent } from '../../machines/events.ts';

/** One machine of the kernel, as the part that lives with it sees it. */
export interface StreamPort<S, E extends MachineEvent> {
  /** The state after the last durable fact. */
  snapshot(): S;
  /** Proposes a fact. False when the machine does not accept it now; true once it is durable. */
  tryAppend(event: NewEvent<E>): Promise<boolean>;
  /** Called after each durable fact of this machine, with the state already folded; returns the way to stop it. */
  onFact(listener: (event: E) => void): () => void;
}

/** Performs effects, each after its fact is durable. Must not throw: an outcome, good or bad, is another fact. */
export type EffectHandlers = { [N in keyof Effects]: (params: Effects[N]) => void };

/** What the log lines of a part look like; pino's logger fits. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}
