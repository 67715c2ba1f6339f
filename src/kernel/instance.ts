import { isDeepStrictEqual } from 'node:util';
import type { AnyMachineSnapshot, AnyStateMachine } from 'xstate';
import type { DaemonSnapshot } from '../../machines/daemon/chart.ts';
import { countOf } from '../../machines/daemon/counts.ts';
import { type AnyEvent, type Deadline, SCHEMA_VERSION } from '../../machines/events.ts';
import { deadlinesOf } from '../../machines/machine.ts';
import type { RunContext } from '../../machines/run/context.ts';
import { acceptedTypesOf, init, type Step, statePath, step } from '../../machines/step.ts';
import { Notifier } from '../async/notifier.ts';
import { SvcError } from '../errors.ts';
import type { Count, Pending } from './committer.ts';
import { machineOf } from './registry.ts';
import type { RunRow, StoredEvent } from './store/port.ts';
import { isRun, stream as keys, type Proposal } from './stream.ts';

/**
 * Recent events that an instance keeps for followers, by number and by size. Older ones are read
 * from the store.
 */
export const RECENT_MAX = 512;
export const RECENT_BYTES_MAX = 256 * 1024;

const ON_TIME = { ms: 0, before: [] };

/**
 * One machine with its state in memory.
 *
 * 1. `tail` includes proposed events that are not durable yet. Decisions use it; clients never see
 *    it.
 * 2. `snapshot` is the fold of `version` durable events.
 * 3. A deadline counts from the time of the effects of its event: the wait for the commit costs no
 *    time.
 */
export class Instance<S extends AnyMachineSnapshot = AnyMachineSnapshot> {
  readonly stream: string;
  /** The boot of its first event. */
  readonly boot_id: string;
  readonly machine: AnyStateMachine;
  tail: S;
  tailVersion: number;
  snapshot: S;
  version: number;
  /** Position of the last durable event that it follows from. */
  seq = 0;
  /** The durable state and the time it was entered; empty before the first durable event. */
  path = '';
  since = 0;
  /** The last durable events, oldest first, without gaps; at least the last one. */
  recent: StoredEvent[] = [];
  private recentBytes = 0;
  /** Cancels the armed timer. */
  disarm: (() => void) | null = null;
  armedFor = Number.POSITIVE_INFINITY;
  /**
   * Commit latency of the last event that requested effects, and the deadlines that existed before
   * it.
   */
  private late: { ms: number; before: number[] } = ON_TIME;
  /** For deadlines from before a jump of the clock: how far they move. */
  private readonly jumps = new Map<number, number>();
  private readonly changed = new Notifier();

  constructor(stream: string, boot_id: string, snapshot: S, version: number) {
    this.stream = stream;
    this.boot_id = boot_id;
    this.machine = machineOf(stream);
    this.tail = snapshot;
    this.tailVersion = version;
    this.snapshot = snapshot;
    this.version = version;
  }

  /** Applies a durable event. `late_ms` is the time from its proposal to its effects. */
  commit(event: StoredEvent, snapshot: S, late_ms = 0): void {
    this.late =
      late_ms <= 0
        ? ON_TIME
        : {
            ms: late_ms,
            before: this.version === 0 ? [] : deadlinesOf(this.snapshot).map(({ at }) => at),
          };
    this.version = event.version;
    this.recent.push(event);
    this.recentBytes += keptLength(event);
    if (this.recent.length > RECENT_MAX || this.recentBytes > RECENT_BYTES_MAX) this.dropOldest();
    this.follow(event, snapshot);
  }

  /** The state after a durable event, perhaps of another stream. */
  follow({ seq, at }: Pick<StoredEvent, 'seq' | 'at'>, snapshot: S): void {
    this.snapshot = snapshot;
    this.seq = seq;
    this.notePath(at);
    this.wake();
  }

  /** The clock has jumped forward: the present deadlines are as far away as before. */
  jump(ms: number): void {
    const present = [...deadlinesOf(this.snapshot), ...deadlinesOf(this.tail)];
    const times = new Set(present.map(({ at }) => at));
    for (const at of this.jumps.keys()) if (!times.has(at)) this.jumps.delete(at);
    for (const at of times) this.jumps.set(at, (this.jumps.get(at) ?? 0) + ms);
    this.armedFor += ms;
  }

  /** Deadlines of the durable state that the uncommitted events do not cancel. */
  deadlines(): Deadline[] {
    const { ms, before } = this.late;
    const moved = (at: number) => at + (this.jumps.get(at) ?? 0);
    const durable = deadlinesOf(this.snapshot).map(({ at, event }) => ({
      at: moved(at) + (before.includes(at) ? 0 : ms),
      event,
    }));
    if (this.tail === this.snapshot) return durable;
    const proposed = deadlinesOf(this.tail).map(({ at, event }) => ({ at: moved(at), event }));
    return durable.flatMap(({ at, event }) =>
      proposed
        .filter((other) => isDeepStrictEqual(other.event, event))
        .map((other) => ({ at: Math.max(at, other.at), event })),
    );
  }

  /** Drops to half of the bounds, so that it does not run at each event. */
  private dropOldest(): void {
    let dropped = 0;
    while (
      dropped < this.recent.length - 1 &&
      (this.recent.length - dropped > RECENT_MAX / 2 || this.recentBytes > RECENT_BYTES_MAX / 2)
    ) {
      this.recentBytes -= keptLength(this.recent[dropped] as StoredEvent);
      dropped += 1;
    }
    this.recent.splice(0, dropped);
  }

  private notePath(at: number): void {
    const path = statePath(this.snapshot);
    if (path === this.path) return;
    this.path = path;
    this.since = at;
  }

  /**
   * Resolves at the next durable event, when the kernel leaves the machine or closes, or when the
   * signal aborts.
   */
  next(signal?: AbortSignal): Promise<void> {
    return this.changed.next(signal);
  }

  wake(): void {
    this.changed.notify();
  }
}

/** The output of the run so far; undefined for other machines. */
export function answerOf(instance: Instance | undefined): Pick<RunContext, 'output' | 'parts'> {
  const { output = '', parts = [] } = (instance?.snapshot.context ?? {}) as Partial<RunContext>;
  return { output, parts };
}

/** Bytes of an event beside the state, which has the contents of the first event. */
function keptLength({ version, data }: StoredEvent): number {
  return version === 1 ? 0 : sizeInMemory(data);
}

/** Approximate bytes of a value: its texts, and something for the rest. */
export function sizeInMemory(value: unknown): number {
  if (typeof value === 'string') return 16 + value.length;
  if (typeof value !== 'object' || value === null) return 8;
  let length = 64;
  if (Array.isArray(value)) for (const inner of value) length += sizeInMemory(inner);
  // A list of the values would be garbage of each event.
  else for (const name in value) length += sizeInMemory((value as Record<string, unknown>)[name]);
  return length;
}

interface DraftOptions {
  at: number;
  boot_id: string;
  instances: Pick<ReadonlyMap<string, Instance>, 'get'>;
  project: (event: StoredEvent, snapshot: AnyMachineSnapshot) => RunRow | null;
}

/** A machine refuses an event in this state. */
export class Refusal {
  readonly type: string;
  readonly state: AnyMachineSnapshot;

  constructor(type: string, state: AnyMachineSnapshot) {
    this.type = type;
    this.state = state;
  }

  get error(): SvcError {
    const state = statePath(this.state);
    return new SvcError('event_refused', `${this.type} is not accepted in the state ${state}.`, {
      details: { state, accepted: acceptedTypesOf(this.state) },
    });
  }
}

/**
 * Steps the machines through the proposals, each on top of the ones before it. It changes no
 * instance. Returns the refusal of the first refused event.
 */
export function draft(
  proposals: readonly Proposal[],
  { at, boot_id, instances, project }: DraftOptions,
): Pending[] | Refusal {
  const drafted: Pending[] = [];
  for (const { stream, event: proposed } of proposals) {
    const dated = { ...proposed, at } as AnyEvent;
    const earlier = drafted.findLast((item) => item.event.stream === stream);
    const known = earlier?.instance ?? instances.get(stream);
    const tail = tailOf(known, drafted);
    const next: Step<AnyMachineSnapshot> =
      tail === undefined ? init(machineOf(stream), dated) : step(machineOf(stream), tail, dated);
    // A machine that accepts an event has another snapshot after it.
    if (next.snapshot === tail) return new Refusal(dated.type, tail);
    const { type, at: _, ...data } = dated as AnyEvent & Record<string, unknown>;
    const event: StoredEvent = {
      seq: 0,
      stream,
      version: (earlier?.event.version ?? known?.tailVersion ?? 0) + 1,
      type,
      schema: SCHEMA_VERSION,
      at,
      boot_id,
      data,
    };
    const instance = known ?? new Instance(stream, boot_id, next.snapshot, 0);
    const daemon = isRun(stream) ? instances.get(keys.daemon(instance.boot_id)) : undefined;
    const count = daemon === undefined ? null : countChange(daemon, event, drafted);
    if (count instanceof Refusal) return count;
    drafted.push({
      event,
      instance,
      snapshot: next.snapshot,
      effects: next.effects,
      count,
      row: project(event, next.snapshot),
      settle: null,
    });
  }
  return drafted;
}

/** The state of an instance after the drafted events. */
function tailOf(
  instance: Instance | undefined,
  drafted: readonly Pending[],
): AnyMachineSnapshot | undefined {
  if (instance === undefined) return undefined;
  const last = drafted.findLast(
    (item) => item.instance === instance || item.count?.daemon === instance,
  );
  if (last === undefined) return instance.tail;
  return last.instance === instance ? last.snapshot : last.count?.snapshot;
}

/** What an event of a run changes in the daemon that accepted the run. */
function countChange(
  daemon: Instance,
  { type, stream: run_id, at }: StoredEvent,
  drafted: readonly Pending[],
): Count | null | Refusal {
  const before = tailOf(daemon, drafted) as DaemonSnapshot;
  const event = countOf(before, { type, run_id, at });
  if (event === null) return null;
  const { snapshot } = step(daemon.machine, before, event);
  if (snapshot === before) return new Refusal(event.type, before);
  return { daemon, type: event.type, snapshot };
}
