import type { ConversationCreated, ConversationEvent } from './conversation.ts';
import type { DaemonCreated, DaemonEvent } from './daemon/context.ts';
import type { EngineCreated, EngineEvent } from './engine.ts';
import type { LeaseCreated, LeaseEvent } from './lease.ts';
import type { ProviderCreated, ProviderEvent } from './provider/context.ts';
import type { PullCreated, PullEvent } from './pull.ts';
import type { RunCreated, RunEvent } from './run/context.ts';

/**
 * Every event that the daemon records: one vocabulary for the log and for the machines.
 *
 * An event is named in the past tense and has a time, `at`, in milliseconds since the epoch.
 * The log stores these objects as they are, and the state of a machine is the fold of them.
 * The first event of a stream creates its machine. Each later event is a transition.
 * A field that older logs lack is optional.
 */

export type EventOf<T extends string, D = unknown> = {
  readonly type: T;
  readonly at: number;
} & Readonly<D>;

/** Increases when the shape of an event changes. `upcast.ts` converts older shapes. */
export const SCHEMA_VERSION = 2;

/** An error as an event records it: a code of the error table, and a message for the user. */
export interface Failure {
  code: string;
  message: string;
  retryable: boolean;
  /** The field of the request that is the cause, such as `messages.0.content.1`. */
  param?: string;
  /** How long after this event the provider may be asked again. */
  retry_after_ms?: number;
  /** HTTP status of the provider's response, where the answer to a client keeps it. */
  status?: number;
  /** What to do about a failed pull, if it is not what the table of errors says. */
  hint?: string;
}

export type CreationEvent =
  | DaemonCreated
  | RunCreated
  | ProviderCreated
  | EngineCreated
  | PullCreated
  | LeaseCreated
  | ConversationCreated;
export type MachineEvent =
  | DaemonEvent
  | RunEvent
  | ProviderEvent
  | EngineEvent
  | PullEvent
  | LeaseEvent
  | ConversationEvent;
export type AnyEvent = CreationEvent | MachineEvent;

/** An event without its time. The kernel adds the time when the event is appended. */
export type NewEvent<F> = F extends { at: number } ? Omit<F, 'at'> : never;

/** An event that is appended at a time, unless the state changes first. It is never stored. */
export interface Deadline<E extends MachineEvent = MachineEvent> {
  at: number;
  event: NewEvent<E>;
}
