import type { AnyMachineSnapshot } from 'xstate';
import type { DaemonEvent } from '../../machines/daemon/context.ts';
import type { Effect } from '../../machines/effects.ts';
import type { Clock } from '../async/clock.ts';
import { asSvcError, type SvcError } from '../errors.ts';
import type { Instance } from './instance.ts';
import { wholeAppends } from './publisher.ts';
import type { Stalls } from './stalls.ts';
import type { AppendResult, EventStore, RunRow, StoredEvent } from './store/port.ts';

/**
 * Batches events into commits and assigns their sequence numbers. It owns the queue of pending
 * events.
 *
 * 1. One commit runs at a time. Events that arrive meanwhile form the next commit; no timer batches
 *    them.
 * 2. One commit has all events of an append, and one row of each run: that after its last event.
 * 3. After a commit with an unknown outcome, nothing more is acknowledged.
 * 4. A full disk is a known outcome: the same commit is retried once a second until there is space.
 * 5. A log with several writers assigns the positions, so a batch is numbered again after its
 *    commit.
 * 6. A late commit has no timeout: only the disk knows its outcome. The stall lasts until the
 *    commit returns.
 */

/** What an event of a run changes in the daemon. */
export interface Count {
  daemon: Instance;
  /** The event that its machine takes. The log does not have it. */
  type: DaemonEvent['type'];
  /** The state after it. */
  snapshot: AnyMachineSnapshot;
}

/** One pending event. The last one of an append carries `settle`. */
export interface Pending {
  event: StoredEvent;
  instance: Instance;
  snapshot: AnyMachineSnapshot;
  effects: Effect[];
  count: Count | null;
  /** The row that is committed together with the event; null where the event changes none. */
  row: RunRow | null;
  settle: { resolve(): void; reject(error: SvcError): void } | null;
}

export interface CommitterOptions {
  store: EventStore;
  clock: Clock;
  commit_events: number;
  /**
   * Called with the durable events of each commit, in log order, and the milliseconds it took. It
   * settles their appends.
   */
  onDurable(items: readonly Pending[], ms: number): void;
  /** Hears when the disk takes no commits, and when it takes them again. */
  stalls: Stalls;
  /** Called once, when the store cannot be trusted any more. */
  onFatal(error: SvcError): void;
}

const FULL_RETRY_MS = 1000;

export class Committer {
  /** Position of the last durable event. */
  durableSeq = 0;
  lastCommitMs: number | null = null;
  /** Set once the outcome of a commit is unknown. */
  failure: SvcError | null = null;
  isOpen = false;
  private readonly options: CommitterOptions;
  /** Whether the last commit used the reserve. */
  private reserveUsed = false;
  private pending: Pending[] = [];
  private committing = false;
  private flushing = false;

  constructor(options: CommitterOptions) {
    this.options = options;
  }

  /** Events that wait for their commit. */
  get backlog(): number {
    return this.pending.length;
  }

  /** The store is open at this position. All pending events become the first commit. */
  open(last_seq: number): void {
    this.durableSeq = last_seq;
    this.isOpen = true;
    this.flush();
  }

  /** Takes the events of one append; resolves when they are durable. */
  push(items: readonly Pending[]): Promise<void> {
    if (items.length === 0) return Promise.resolve();
    return new Promise<void>((resolve, reject) => {
      const last = items.at(-1);
      if (last !== undefined) last.settle = { resolve, reject };
      this.pending.push(...items);
      this.flushSoon();
    });
  }

  /**
   * Flushes at the end of this turn, so that all requests that it reads share a commit. On a full
   * disk the next try is already scheduled.
   */
  private flushSoon(): void {
    if (this.flushing) return;
    this.flushing = true;
    setImmediate(() => {
      this.flushing = false;
      if (this.options.stalls.cause?.code !== 'store_full') this.flush();
    });
  }

  private flush(): void {
    if (!this.isOpen || this.committing || this.failure !== null || this.pending.length === 0)
      return;
    this.committing = true;
    const batch = this.pending.splice(0, wholeAppends(this.pending, this.options.commit_events));
    numberFrom(batch, this.durableSeq + 1);
    void this.commit(batch);
  }

  private async commit(batch: Pending[]): Promise<void> {
    const started = performance.now();
    const { store, stalls } = this.options;
    let appended: AppendResult;
    try {
      appended = await stalls.watchCommit(
        store.append({ events: batch.map((item) => item.event), runs: rowsOf(batch) }),
      );
    } catch (thrown) {
      this.committing = false;
      this.retryOrFail(batch, asSvcError(thrown, 'store_failed'));
      return;
    }
    const { full, first_seq } = appended;
    if (first_seq !== batch[0]?.event.seq) numberFrom(batch, first_seq);
    this.lastCommitMs = performance.now() - started;
    this.durableSeq = batch.at(-1)?.event.seq ?? this.durableSeq;
    this.committing = false;
    stalls.end();
    this.options.onDurable(batch, this.lastCommitMs);
    if (full !== this.reserveUsed) stalls.reserveUsed(full);
    this.reserveUsed = full;
    if (this.pending.length > 0) this.flushSoon();
  }

  /** A full disk: the same batch again, later. Any other error: reject all pending events. */
  private retryOrFail(batch: Pending[], error: SvcError): void {
    if (error.code === 'store_full') {
      this.options.stalls.begin(error);
      this.pending.unshift(...batch);
      this.options.clock.after(FULL_RETRY_MS, () => this.flush());
      return;
    }
    this.failure = error;
    for (const item of [...batch, ...this.pending]) item.settle?.reject(error);
    this.pending = [];
    this.options.onFatal(error);
  }
}

function numberFrom(batch: readonly Pending[], first_seq: number): void {
  for (const [index, item] of batch.entries()) assignSeq(item, first_seq + index);
}

function assignSeq({ event, row }: Pending, seq: number): void {
  event.seq = seq;
  if (row === null) return;
  row.seq = seq;
  if (row.record !== null) row.record.seq = seq;
}

/** The last row of each run. */
function rowsOf(batch: readonly Pending[]): RunRow[] {
  const rows = new Map<string, RunRow>();
  for (const { row } of batch) if (row !== null) rows.set(row.run_id, row);
  return [...rows.values()];
}
