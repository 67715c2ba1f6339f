import type { Failure, RunCreated, RunEvent } from '../src/contract/events.ts';
import type { ConversationCreated, ConversationEvent } from './conversation.ts';
import type { DaemonCreated, DaemonEvent } from './daemon/context.ts';
import type { EngineCreated, EngineEvent } from './engine.ts';
import type { LeaseCreated, LeaseEvent } from './lease.ts';
import type { McpServerCreated, McpServerEvent } from './mcp-server.ts';
import type { ProviderCreated, ProviderEvent } from './provider/context.ts';
import type { PullCreated, PullEvent } from './pull.ts';

export type { Failure };

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

export type CreationEvent =
  | DaemonCreated
  | RunCreated
  | ProviderCreated
  | EngineCreated
  | PullCreated
  | McpServerCreated
  | LeaseCreated
  | ConversationCreated;
export type MachineEvent =
  | DaemonEvent
  | RunEvent
  | ProviderEvent
  | EngineEvent
  | PullEvent
  | McpServerEvent
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
