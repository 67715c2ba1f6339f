import type {
  ConversationCreated,
  ConversationEvent,
  ConversationSnapshot,
} from '../../machines/conversation.ts';
import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import type { DaemonCreated, DaemonEvent } from '../../machines/daemon/context.ts';
import type { EngineCreated, EngineEvent, EngineSnapshot } from '../../machines/engine.ts';
import type { NewEvent } from '../../machines/events.ts';
import type { LeaseCreated, LeaseEvent, LeaseSnapshot } from '../../machines/lease.ts';
import type {
  McpServerCreated,
  McpServerEvent,
  McpServerSnapshot,
} from '../../machines/mcp-server.ts';
import type { ProviderSnapshot } from '../../machines/provider/chart.ts';
import type { ProviderCreated, ProviderEvent } from '../../machines/provider/context.ts';
import type { PullCreated, PullEvent, PullSnapshot } from '../../machines/pull.ts';
import type { RunSnapshot } from '../../machines/run/chart.ts';
import type { RunCreated, RunEvent } from '../../machines/run/context.ts';
import { Notifier } from '../async/notifier.ts';
import type { StreamPort } from '../ports/log.ts';
import type { Kernel } from './kernel.ts';

/**
 * The keys of streams. The form of a key names its machine, so its type knows the states and the
 * events of the stream.
 */
interface Machines {
  daemon: Machine<`daemon:${string}`, DaemonSnapshot, DaemonCreated, DaemonEvent>;
  engine: Machine<`engine:${string}`, EngineSnapshot, EngineCreated, EngineEvent>;
  provider: Machine<`provider:${string}`, ProviderSnapshot, ProviderCreated, ProviderEvent>;
  pull: Machine<`pull:${string}`, PullSnapshot, PullCreated, PullEvent>;
  mcp: Machine<`mcp:${string}`, McpServerSnapshot, McpServerCreated, McpServerEvent>;
  lease: Machine<`lease:${string}`, LeaseSnapshot, LeaseCreated, LeaseEvent>;
  conversation: Machine<
    `conversation:${string}`,
    ConversationSnapshot,
    ConversationCreated,
    ConversationEvent
  >;
  run: Machine<`run_${string}`, RunSnapshot, RunCreated, RunEvent>;
}

interface Machine<Key extends string, Snapshot, Created, Event> {
  key: Key;
  snapshot: Snapshot;
  created: Created;
  event: Event;
}

export type MachineName = keyof Machines;
export type KeyOf<M extends MachineName> = Machines[M]['key'];
export type DaemonKey = KeyOf<'daemon'>;
export type EngineKey = KeyOf<'engine'>;
export type ProviderKey = KeyOf<'provider'>;
export type PullKey = KeyOf<'pull'>;
export type McpKey = KeyOf<'mcp'>;
export type LeaseKey = KeyOf<'lease'>;
export type ConversationKey = KeyOf<'conversation'>;
export type RunKey = KeyOf<'run'>;
export type StreamKey = KeyOf<MachineName>;

export type MachineOf<K extends StreamKey> = {
  [M in MachineName]: K extends KeyOf<M> ? M : never;
}[MachineName];
export type SnapshotOf<K extends StreamKey> = Machines[MachineOf<K>]['snapshot'];
export type EventOf<K extends StreamKey> = Machines[MachineOf<K>]['event'];

/** An event to append: the first event of a stream, or a later one. */
export type Proposal = {
  [M in MachineName]: {
    stream: KeyOf<M>;
    event: NewEvent<Machines[M]['created'] | Machines[M]['event']>;
  };
}[MachineName];

export const stream = {
  daemon: (boot_id: string): DaemonKey => `daemon:${boot_id}`,
  /** `number` counts the engines of this boot. Older logs have one, `engine:<boot>`. */
  engine: (boot_id: string, number: number): EngineKey => `engine:${boot_id}:${number}`,
  /**
   * `number` counts the providers of this boot: an id that was removed and added again has a new
   * stream.
   */
  provider: (id: string, boot_id: string, number: number): ProviderKey =>
    `provider:${id}:${boot_id}:${number}`,
  pull: (id: string, boot_id: string): PullKey => `pull:${id}:${boot_id}`,
  /** `number` counts the servers of this boot: see `provider`. */
  mcp: (name: string, boot_id: string, number: number): McpKey =>
    `mcp:${name}:${boot_id}:${number}`,
  /** A node has one lease for each boot. */
  lease: (node_id: string, boot_id: string): LeaseKey => `lease:${node_id}:${boot_id}`,
  conversation: (conversation_id: string): ConversationKey => `conversation:${conversation_id}`,
  /** The id of a run is also its key. Check an id of a request with `isRun` first. */
  run: (run_id: string): RunKey => run_id as RunKey,
};

export function isDaemon(key: string): key is DaemonKey {
  return key.startsWith('daemon:');
}

export function isEngine(key: string): key is EngineKey {
  return key.startsWith('engine:');
}

export function isRun(id: string): id is RunKey {
  return id.startsWith('run_');
}

/** One machine of the kernel, for the part that does its work. The machine need not exist yet. */
export function streamPort<K extends StreamKey>(
  kernel: Kernel,
  stream: K,
): StreamPort<SnapshotOf<K>, EventOf<K>> {
  const snapshot = () => kernel.snapshot(stream) as unknown as SnapshotOf<K>;
  return {
    snapshot,
    tryAppend: (event) => kernel.tryAppend(stream, event),
    subscribe: (listener, signal) => kernel.subscribe({ stream }, listener, signal),
    waitFor: async (look, signal) => {
      const changes = new Notifier();
      const found = new AbortController();
      kernel.subscribe({ stream }, () => changes.notify(), found.signal);
      return changes.waitFor(() => look(snapshot()), signal).finally(() => found.abort());
    },
  };
}
