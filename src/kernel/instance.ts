import { isDeepStrictEqual } from 'node:util';
import type { AnyMachineSnapshot, AnyStateMachine } from 'xstate';
import { type AnyEvent, type Deadline, SCHEMA_VERSION } from '../../machines/events.ts';
import { deadlinesOf } from '../../machines/machine.ts';
import type { RunContext } from '../../machines/run/context.ts';
import { accepted, init, type Step, statePath, step } from '../../machines/step.ts';
import { Notifier } from '../async/notifier.ts';
import { SvcError } from '../errors.ts';
import type { RunRow, StoredEvent } from '../store/port.ts';
import type { Pending } from './committer.ts';
import { machineOf } from './registry.ts';
import type { Proposal } from './stream.ts';

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
  readonly machine: AnyStateMachine;
  tail: S;
  tailVersion: number;
  snapshot: S;
  version: number;
  /** Position of the last durable event in the log. */
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

  constructor(stream: string, snapshot: S, version: number) {
    this.stream = stream;
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
    this.snapshot = snapshot;
    this.version = event.version;
    this.seq = event.seq;
    this.notePath(event.at);
    this.recent.push(event);
    this.recentBytes += textLength(event.data);
    if (this.recent.length > RECENT_MAX || this.recentBytes > RECENT_BYTES_MAX) this.dropOldest();
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
      this.recentBytes -= textLength(this.recent[dropped]?.data);
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

/** About what a value takes: its texts, and something for the rest. */
export function textLength(value: unknown): number {
  if (typeof value === 'string') return 16 + value.length;
  if (typeof value !== 'object' || value === null) return 8;
  let length = 64;
  if (Array.isArray(value)) for (const inner of value) length += textLength(inner);
  // A list of the values would be garbage of each event.
  else for (const name in value) length += textLength((value as Record<string, unknown>)[name]);
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
      details: { state, accepted: accepted(this.state) },
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
    const tail = earlier?.snapshot ?? known?.tail;
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
    drafted.push({
      event,
      instance: known ?? new Instance(stream, next.snapshot, 0),
      snapshot: next.snapshot,
      effects: next.effects,
      row: project(event, next.snapshot),
      settle: null,
    });
  }
  return drafted;
}
