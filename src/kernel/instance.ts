import { isDeepStrictEqual } from 'node:util';
import type { AnyMachineSnapshot } from 'xstate';
import type { Deadline } from '../../machines/events.ts';
import type { RunContext } from '../../machines/run-context.ts';
import { statePath } from '../../machines/step.ts';
import type { StoredEvent } from '../store/port.ts';
import { Notifier } from './notifier.ts';
import { definitionOf, type MachineDefinition } from './registry.ts';
import { textLength } from './text-length.ts';

/** Facts of one stream that are kept for those who follow it, by their number and by their texts; older ones are read from the store. */
export const RECENT_MAX = 512;
export const RECENT_BYTES_MAX = 256 * 1024;

const ON_TIME = { ms: 0, before: [] };

/**
 * One machine in memory.
 *
 * 1. `tail` includes facts that are proposed and not yet durable: decisions are made on it, nobody outside sees it.
 * 2. `snapshot` is the fold of durable facts, `version` the number of them.
 * 3. A deadline counts from when the effects of its fact were asked for, however long the fact had waited for its commit.
 */
export class Instance<S extends AnyMachineSnapshot = AnyMachineSnapshot> {
  readonly stream: string;
  readonly definition: MachineDefinition;
  tail: S;
  tailVersion: number;
  snapshot: S;
  version: number;
  /** Position in the log of the last durable fact. */
  seq = 0;
  /** The state after the last durable fact, and when it was entered; empty while there is none. */
  path = '';
  since = 0;
  /** The last durable facts, oldest first, without gaps; at least the last one. */
  recent: StoredEvent[] = [];
  private recentBytes = 0;
  /** Calls off the armed timer. */
  disarm: (() => void) | null = null;
  armedFor = Number.POSITIVE_INFINITY;
  /** How long the last fact waited for its commit, if it asks for effects, and the times of the deadlines that there were before it. */
  private late: { ms: number; before: number[] } = ON_TIME;
  private readonly changed = new Notifier();

  constructor(stream: string, snapshot: S, version: number) {
    this.stream = stream;
    this.definition = definitionOf(stream);
    this.tail = snapshot;
    this.tailVersion = version;
    this.snapshot = snapshot;
    this.version = version;
  }

  /** A fact of this stream became durable, and its effects are asked for this long after it was proposed. */
  commit(event: StoredEvent, snapshot: S, late_ms = 0): void {
    this.late =
      late_ms <= 0
        ? ON_TIME
        : {
            ms: late_ms,
            before:
              this.version === 0
                ? []
                : this.definition.deadlines(this.snapshot).map(({ at }) => at),
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

  /** What comes true by itself: in the durable state, and only where what is on its way to the log leaves it standing. */
  deadlines(): Deadline[] {
    const { ms, before } = this.late;
    const durable = this.definition
      .deadlines(this.snapshot)
      .map(({ at, event }) => ({ at: before.includes(at) ? at : at + ms, event }));
    if (this.tail === this.snapshot) return durable;
    const proposed = this.definition.deadlines(this.tail);
    return durable.flatMap(({ at, event }) =>
      proposed
        .filter((other) => isDeepStrictEqual(other.event, event))
        .map((other) => ({ at: Math.max(at, other.at), event })),
    );
  }

  /** To half of the bounds, so that it is not done at each fact. */
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

  /** Resolves at the next durable event, when the kernel leaves the machine or closes, or when the signal aborts. */
  next(signal?: AbortSignal): Promise<void> {
    return this.changed.next(signal);
  }

  wake(): void {
    this.changed.notify();
  }
}

/** What the run of this instance has said so far; undefined where there is none. */
export function outputOf(instance: Instance | undefined): string | undefined {
  return (instance?.snapshot.context as Partial<RunContext> | undefined)?.output;
}
