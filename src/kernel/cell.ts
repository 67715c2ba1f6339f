import type { AnyMachineSnapshot } from 'xstate';
import { statePath } from '../../machines/step.ts';
import type { StoredEvent } from '../store/store.ts';
import { type Kind, kindOf } from './kinds.ts';

/** Facts of one stream that are kept for those who follow it; older ones are read from the store. */
export const RECENT_MAX = 512;

/**
 * One machine in memory.
 *
 * 1. `tail` includes facts that are proposed and not yet durable: decisions are made on it, nobody outside sees it.
 * 2. `snapshot` is the fold of durable facts, `version` the number of them.
 */
export class Cell {
  readonly stream: string;
  readonly kind: Kind;
  tail: AnyMachineSnapshot;
  tailVersion: number;
  snapshot: AnyMachineSnapshot;
  version: number;
  /** Position in the log of the last durable fact. */
  seq = 0;
  /** The state after the last durable fact, and when it was entered; empty while there is none. */
  path = '';
  since = 0;
  /** The last durable facts, oldest first, without gaps. */
  recent: StoredEvent[] = [];
  /** Calls off the armed timer. */
  disarm: (() => void) | null = null;
  armedFor = Number.POSITIVE_INFINITY;
  private waiting: (() => void)[] = [];

  constructor(stream: string, snapshot: AnyMachineSnapshot, version: number) {
    this.stream = stream;
    this.kind = kindOf(stream);
    this.tail = snapshot;
    this.tailVersion = version;
    this.snapshot = snapshot;
    this.version = version;
  }

  /** A fact of this stream became durable. */
  commit(event: StoredEvent, snapshot: AnyMachineSnapshot): void {
    this.snapshot = snapshot;
    this.version = event.version;
    this.seq = event.seq;
    this.notePath(event.at);
    this.recent.push(event);
    if (this.recent.length > RECENT_MAX) this.recent.splice(0, RECENT_MAX / 2);
    this.wake();
  }

  private notePath(at: number): void {
    const path = statePath(this.snapshot);
    if (path === this.path) return;
    this.path = path;
    this.since = at;
  }

  /** Resolves at the next durable fact, or when the cell is left. */
  next(): Promise<void> {
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  wake(): void {
    const waiting = this.waiting;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }
}
