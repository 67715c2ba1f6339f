import type { AnyMachineSnapshot } from 'xstate';
import type { Effect } from '../../machines/effects.ts';
import { type AnyFact, SCHEMA_VERSION, type Undated } from '../../machines/events.ts';
import type { RunSnapshot } from '../../machines/run.ts';
import { accepted, can, init, statePath, step } from '../../machines/step.ts';
import { asSvcError, SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { type EventStore, type RunRow, type StoredEvent, toFact } from '../store/store.ts';
import { Cell } from './cell.ts';
import type { Clock } from './clock.ts';
import { kindOf, RUN_PREFIX } from './kinds.ts';
import type { Log } from './port.ts';
import { runRow } from './run-record.ts';

/**
 * The one writer: it owns every machine's state, the order of facts, and the only road into the store.
 *
 * 1. A fact is durable before its state, its event or its effect is seen by anybody. The one exception is the time before
 *    the store is open: then the state shows at once, so that `starting` can be seen, and the facts become the first commit.
 * 2. A proposal is accepted whole or not at all, by the machines themselves.
 * 3. One commit is in progress at a time; what is proposed meanwhile makes the next one.
 * 4. After a commit whose outcome is unknown nothing more is acknowledged: the daemon fails and its next start reads the truth.
 * 5. A full disk is not unknown: the same commit is tried again until there is space.
 * 6. Timers are derived from the states of the machines and from nothing else.
 */

export interface Proposal {
  stream: string;
  fact: Undated<AnyFact>;
}

export interface KernelOptions {
  store: EventStore;
  clock: Clock;
  limits: Limits;
  boot_id: string;
  log: Log;
  /** Performs one effect; called after its fact is durable. `id` is the same at each repetition. */
  perform(effect: Effect, id: string): void;
  /** The store cannot be trusted any more. */
  onFatal(error: SvcError): void;
}

/** Called for each durable fact, in log order. */
export type FactListener = (event: StoredEvent, snapshot: AnyMachineSnapshot) => void;

interface Pending {
  event: StoredEvent;
  cell: Cell;
  snapshot: AnyMachineSnapshot;
  effects: Effect[];
  row: RunRow | null;
  settle: { resolve(): void; reject(error: SvcError): void } | null;
}

const FULL_RETRY_MS = 1000;
/** A deadline that its machine does not accept yet is not asked about more often than this. */
const REFUSED_AGAIN_MS = 100;

export class Kernel {
  readonly clock: Clock;
  lastCommitMs: number | null = null;
  /** Nothing more comes: whoever follows a stream leaves. */
  closed = false;
  /** Set while the disk is full. */
  stalled: SvcError | null = null;
  private readonly options: KernelOptions;
  private readonly cells = new Map<string, Cell>();
  private readonly listeners = new Set<FactListener>();
  private pending: Pending[] = [];
  private committing = false;
  private opened = false;
  private failure: SvcError | null = null;
  private durable = 0;
  private idle: (() => void)[] = [];

  constructor(options: KernelOptions) {
    this.options = options;
    this.clock = options.clock;
  }

  /** Position of the last durable fact. */
  get durableSeq(): number {
    return this.durable;
  }

  /** Whether the store can be asked. */
  get isOpen(): boolean {
    return this.opened;
  }

  /** Facts that wait for their commit. */
  get backlog(): number {
    return this.pending.length;
  }

  /** The store is open: what was held becomes the first commit. */
  open(last_seq: number): void {
    this.durable = last_seq;
    this.opened = true;
    this.flush();
  }

  /**
   * Records facts together: all or none. Resolves once they are durable.
   * Rejects with event_refused, `details.state` and `details.accepted`, when a machine does not accept its fact; then nothing has changed.
   */
  async propose(proposals: readonly Proposal[]): Promise<void> {
    if (this.failure !== null) throw this.failure;
    const at = this.clock.now();
    const drafted = this.draft(proposals, at);
    for (const { cell, snapshot } of drafted) {
      cell.tail = snapshot;
      cell.tailVersion += 1;
      this.cells.set(cell.stream, cell);
      if (!this.opened) {
        cell.snapshot = snapshot;
        this.arm(cell);
      }
    }
    await new Promise<void>((resolve, reject) => {
      const last = drafted.at(-1);
      if (last !== undefined) last.settle = { resolve, reject };
      this.pending.push(...drafted);
      queueMicrotask(() => this.flush());
    });
  }

  /** Like `propose` for one fact; false when the machine does not accept it. */
  async submit(stream: string, fact: Undated<AnyFact>): Promise<boolean> {
    if (!this.accepts(stream, fact)) return false;
    await this.propose([{ stream, fact }]);
    return true;
  }

  accepts(stream: string, fact: Undated<AnyFact>): boolean {
    const cell = this.cells.get(stream);
    return cell !== undefined && can(cell.tail, { ...fact, at: this.clock.now() } as AnyFact);
  }

  /** The state with all proposed facts, for policies that are asked in the same turn as they propose. */
  tail<S extends AnyMachineSnapshot>(stream: string): S | undefined {
    return this.cells.get(stream)?.tail as S | undefined;
  }

  /** The state of durable facts. */
  snapshot<S extends AnyMachineSnapshot>(stream: string): S | undefined {
    return this.cells.get(stream)?.snapshot as S | undefined;
  }

  cell(stream: string): Cell | undefined {
    return this.cells.get(stream);
  }

  onFact(listener: FactListener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Folds a stream from the store into memory; its effects are not asked for again. */
  async load(stream: string): Promise<AnyMachineSnapshot | undefined> {
    const cell = await fold(this.options.store, stream);
    if (cell === undefined) return undefined;
    this.cells.set(stream, cell);
    this.arm(cell);
    return cell.snapshot;
  }

  /** Leaves a finished machine to the store. */
  forget(stream: string): void {
    const cell = this.cells.get(stream);
    if (cell === undefined) return;
    cell.disarm?.();
    this.cells.delete(stream);
    cell.wake();
  }

  /** Resolves when nothing waits for a commit. */
  settled(): Promise<void> {
    if ((this.pending.length === 0 && !this.committing) || this.failure !== null || !this.opened) return Promise.resolve();
    return new Promise((resolve) => this.idle.push(resolve));
  }

  /** Timers off; whoever follows a stream is let go. */
  close(): void {
    this.closed = true;
    for (const cell of this.cells.values()) {
      cell.disarm?.();
      cell.disarm = null;
      cell.wake();
    }
    this.listeners.clear();
  }

  private draft(proposals: readonly Proposal[], at: number): Pending[] {
    const drafts = new Map<string, { cell: Cell; tail: AnyMachineSnapshot | null; version: number }>();
    return proposals.map(({ stream, fact }) => {
      const dated = { ...fact, at } as AnyFact;
      const known = this.cells.get(stream);
      const draft = drafts.get(stream) ?? (known && { cell: known, tail: known.tail, version: known.tailVersion });
      const next = draft === undefined || draft.tail === null ? init(kindOf(stream).machine, dated) : this.advance(stream, draft.tail, dated);
      const cell = draft?.cell ?? new Cell(stream, next.snapshot, 0);
      const version = (draft?.version ?? 0) + 1;
      drafts.set(stream, { cell, tail: next.snapshot, version });
      const { type, at: _, ...data } = dated as AnyFact & Record<string, unknown>;
      const event: StoredEvent = { seq: 0, stream, version, type, schema: SCHEMA_VERSION, at, boot_id: this.options.boot_id, data };
      const row = stream.startsWith(RUN_PREFIX) && type !== 'run.output_appended' ? runRow(next.snapshot as unknown as RunSnapshot, 0) : null;
      return { event, cell, snapshot: next.snapshot, effects: next.effects, row, settle: null };
    });
  }

  private advance(stream: string, tail: AnyMachineSnapshot, fact: AnyFact) {
    if (!can(tail, fact)) {
      const state = statePath(tail);
      throw new SvcError('event_refused', `${fact.type} is not accepted in the state ${state}.`, { details: { state, accepted: accepted(tail) } });
    }
    return step(kindOf(stream).machine, tail, fact);
  }

  /** Starts a commit of what waits, unless one is in progress. */
  private flush(): void {
    if (!this.opened || this.committing || this.failure !== null) return;
    if (this.pending.length === 0) {
      const idle = this.idle;
      this.idle = [];
      for (const resolve of idle) resolve();
      return;
    }
    this.committing = true;
    const batch = this.pending.splice(0, this.batchSize());
    let seq = this.durable;
    for (const item of batch) {
      item.event.seq = ++seq;
      if (item.row !== null) number(item.row, seq);
    }
    void this.commit(batch);
  }

  /** As many facts as one commit takes, and what is needed to end the last proposal: only its last fact has a `settle`. */
  private batchSize(): number {
    let size = Math.min(this.pending.length, this.options.limits.commit_events);
    while (this.pending[size - 1]?.settle === null) size += 1;
    return size;
  }

  private async commit(batch: Pending[]): Promise<void> {
    const started = performance.now();
    try {
      await this.options.store.append({ events: batch.map((item) => item.event), runs: batch.flatMap((item) => item.row ?? []) });
    } catch (thrown) {
      this.committing = false;
      this.refuse(batch, asSvcError(thrown, 'store_failed'));
      return;
    }
    this.stalled = null;
    this.lastCommitMs = performance.now() - started;
    this.durable = batch.at(-1)?.event.seq ?? this.durable;
    this.committing = false;
    for (const item of batch) this.publish(item);
    this.flush();
  }

  /** The order is: state, then those who follow, then effects, then the proposer. */
  private publish(item: Pending): void {
    const { cell, event, snapshot } = item;
    cell.commit(event, snapshot);
    this.arm(cell);
    for (const listener of this.listeners) listener(event, snapshot);
    item.effects.forEach((effect, index) => this.options.perform(effect, `${event.stream}:${event.version}:${index}`));
    item.settle?.resolve();
  }

  private refuse(batch: Pending[], error: SvcError): void {
    if (error.code === 'store_full') {
      if (this.stalled === null) this.options.log.error({ code: error.code }, error.message);
      this.stalled = error;
      this.pending.unshift(...batch);
      this.clock.after(FULL_RETRY_MS, () => this.flush());
      return;
    }
    this.failure = error;
    for (const item of [...batch, ...this.pending]) item.settle?.reject(error);
    this.pending = [];
    this.options.onFatal(error);
  }

  /** Sets the timer of a cell to its earliest deadline; one that moved later is looked at again when it fires. */
  private arm(cell: Cell, notBefore = 0): void {
    const at = Math.max(notBefore, Math.min(...cell.kind.deadlines(cell.tail).map((deadline) => deadline.at)));
    if (at >= cell.armedFor) return;
    cell.disarm?.();
    cell.disarm = null;
    cell.armedFor = at;
    if (at === Number.POSITIVE_INFINITY) return;
    cell.disarm = this.clock.after(at - this.clock.now(), () => this.fire(cell));
  }

  private fire(cell: Cell): void {
    cell.armedFor = Number.POSITIVE_INFINITY;
    const now = this.clock.now();
    const due = cell.kind.deadlines(cell.tail).find((deadline) => deadline.at <= now && this.accepts(cell.stream, deadline.event));
    if (due !== undefined) {
      this.propose([{ stream: cell.stream, fact: due.event }]).catch((error: unknown) => this.options.log.error({ err: error, stream: cell.stream }, 'a deadline could not be recorded'));
    }
    this.arm(cell, due === undefined ? now + REFUSED_AGAIN_MS : 0);
  }
}

/** One stream of the store, folded; undefined when there is none. */
export async function fold(store: EventStore, stream: string, until = Number.POSITIVE_INFINITY): Promise<Cell | undefined> {
  const { machine } = kindOf(stream);
  let cell: Cell | undefined;
  for (let version = 1; ; ) {
    const page = await store.readStream(stream, version, 1000);
    for (const event of page) {
      if (event.seq > until) return cell;
      const snapshot: AnyMachineSnapshot = cell === undefined ? init(machine, toFact(event)).snapshot : step(machine, cell.snapshot, toFact(event)).snapshot;
      cell ??= new Cell(stream, snapshot, 0);
      cell.commit(event, snapshot);
      cell.tail = snapshot;
      cell.tailVersion = event.version;
    }
    if (page.length === 0) return cell;
    version += page.length;
  }
}

function number(row: RunRow, seq: number): void {
  row.seq = seq;
  if (row.record !== null) row.record.seq = seq;
}
