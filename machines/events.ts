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

/** Increases when the shape of an event changes. `upcast.ts` converts older shapes. */
export const SCHEMA_VERSION = 2;

/**
 * Kinds of events by the format of the log that has them first, by the beginning of their type. An
 * older version could not fold them, so it refuses a log of this format. A log gets the format with
 * its first event of such a kind, and not before. All other kinds are of the third format. A name
 * with a space is not a kind of events: it describes another change of the format.
 */
export const NEW_KINDS: Readonly<Record<number, readonly string[]>> = {
  4: ['mcp.', 'run.tool_', 'run.turn_completed'],
  5: ['run.tool_reported'],
  6: ['a text of 256 characters or more'],
  7: ['run.asked_again'],
};
/** The newest format of a log that this version reads and writes. */
export const LOG_FORMAT = 7;
/** The format of a log with texts that are stored once: see `src/kernel/store/texts.ts`. */
export const TEXTS_FORMAT = 6;

/** The format that a log with this event has at least; null for the third one. */
export function formatOf(type: string): number | null {
  for (const format of Object.keys(NEW_KINDS).toReversed().map(Number))
    if (NEW_KINDS[format]?.some((kind) => type.startsWith(kind))) return format;
  return null;
}

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
