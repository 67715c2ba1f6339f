import type { Effects } from '../../machines/effects.ts';
import type { MachineEvent, NewEvent } from '../../machines/events.ts';

/** One machine of the kernel, for the part that does its work. */
export interface StreamPort<S, E extends MachineEvent> {
  /** The state after the last durable event. */
  snapshot(): S;
  /** Proposes an event. False when the machine refuses it; true once it is durable. */
  tryAppend(event: NewEvent<E>): Promise<boolean>;
  /** Calls after each durable event, with the new state in place, until the signal aborts. */
  subscribe(listener: () => void, signal?: AbortSignal): void;
  /**
   * Calls `look` now and after each durable event until it returns a value. `look` may append
   * events. Throws the signal's reason.
   */
  waitFor<T>(look: (snapshot: S) => T | null | Promise<T | null>, signal: AbortSignal): Promise<T>;
}

/**
 * Performs each effect after its event is durable. A handler never throws: its outcome is another
 * event. `id` is the same each time the effect is requested.
 */
export type EffectHandlers = { [N in keyof Effects]: (params: Effects[N], id: string) => void };

/** The log of a part; a pino logger fits. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}
