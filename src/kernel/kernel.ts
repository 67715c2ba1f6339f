import type { AnyMachineSnapshot } from 'xstate';
import type { Effect } from '../../machines/effects.ts';
import { type AnyEvent, type NewEvent, SCHEMA_VERSION } from '../../machines/events.ts';
import type { RunSnapshot } from '../../machines/run.ts';
import { accepted, can, init, statePath, step } from '../../machines/step.ts';
import { SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { StoredEvent } from '../store/port.ts';
import type { Clock } from './clock.ts';
import { Committer, type Pending } from './committer.ts';
import type { KernelStore } from './content.ts';
import { foldStream } from './fold.ts';
import { Instance } from './instance.ts';
import type { Log } from './port.ts';
import { definitionOf, RUN_PREFIX } from './registry.ts';
import { runRow } from './run-record.ts';
import { Stalls } from './stalls.ts';

/**
 * The one writer: it owns every machine's state and the order of facts.
 *
 * 1. A fact is durable before its state, its event or its effect is seen by anybody. The one exception is the time before
 *    the store is open: then the state shows at once, so that `starting` can be seen, and the facts become the first commit.
 * 2. A proposal is accepted whole or not at all, by the machines themselves.
 * 3. Timers are derived from the durable states of the machines, and from when the effects of a fact were asked for.
 */

export interface Proposal {
  stream: string;
  fact: NewEvent<AnyEvent>;
}

export interface KernelOptions {
  store: KernelStore;
  clock: Clock;
  limits: Limits;
  boot_id: string;
  log: Log;
  /** Performs one effect; called after its fact is durable. `id` is the same at each repetition. */
  perform(effect: Effect, id: string): void;
  /** The last commit found the disk full, and could use what is held in reserve for that; or does not any more. */
  onSpace?(full: boolean): void;
  /** The store cannot be trusted any more. */
  onFatal(error: SvcError): void;
}

/** Called for each durable fact, in log order. */
export type FactListener = (event: StoredEvent, snapshot: AnyMachineSnapshot) => void;

/** A deadline that its machine does not accept yet is not asked about more often than this. */
const REFUSED_AGAIN_MS = 100;

export class Kernel {
  readonly clock: Clock;
  /** Nothing more comes: whoever follows a stream leaves. */
  closed = false;
  /** The pieces of an answer are stored without their text: only a run in memory knows it. */
  readonly omitsOutput: boolean;
  private readonly options: KernelOptions;
  private readonly committer: Committer;
  /** Tells those who would rather not wait when the disk turns out to be full, or late. */
  readonly stalls: Stalls;
  readonly instances = new Map<string, Instance>();
  private readonly listeners = new Set<FactListener>();

  constructor(options: KernelOptions) {
    this.options = options;
    this.clock = options.clock;
    this.omitsOutput = options.store.omitsOutput === true;
    this.stalls = new Stalls(options);
    this.committer = new Committer({
      ...options,
      stalls: this.stalls,
      commit_events: options.limits.commit_events,
      commit_late_ms: options.limits.commit_late_ms,
      onDurable: (item) => this.publish(item),
    });
  }

  /** Position of the last durable fact. */
  get durableSeq(): number {
    return this.committer.durableSeq;
  }

  /** Facts that wait for their commit. */
  get backlog(): number {
    return this.committer.backlog;
  }

  get lastCommitMs(): number | null {
    return this.committer.lastCommitMs;
  }

  /** Why no commit can be made now: store_full or store_stalled; null while commits are made. */
  get stalled(): SvcError | null {
    return this.stalls.cause;
  }

  /** Set once the outcome of a commit is unknown: nothing more is acknowledged. */
  get failure(): SvcError | null {
    return this.committer.failure;
  }

  get isOpen(): boolean {
    return this.committer.isOpen;
  }

  /** The store can be asked from now on: what was held becomes the first commit. */
  open(last_seq: number): void {
    this.committer.open(last_seq);
  }

  /**
   * Records facts together: all or none. Resolves once they are durable.
   * Rejects with event_refused, `details.state` and `details.accepted`, when a machine does not accept its fact; then nothing has changed.
   */
  async append(proposals: readonly Proposal[]): Promise<void> {
    if (this.committer.failure !== null) throw this.committer.failure;
    const at = this.clock.now();
    const drafted = this.draft(proposals, at);
    for (const { instance, snapshot } of drafted) {
      instance.tail = snapshot;
      instance.tailVersion += 1;
      this.instances.set(instance.stream, instance);
      if (!this.isOpen) {
        instance.snapshot = snapshot;
        this.arm(instance);
      }
    }
    await this.committer.push(drafted);
  }

  /** Like `append` for one fact; false when the machine does not accept it. */
  async tryAppend(stream: string, fact: NewEvent<AnyEvent>): Promise<boolean> {
    if (!this.accepts(stream, fact)) return false;
    await this.append([{ stream, fact }]);
    return true;
  }

  accepts(stream: string, fact: NewEvent<AnyEvent>): boolean {
    const tail = this.tail(stream);
    return tail !== undefined && can(tail, { ...fact, at: this.clock.now() } as AnyEvent);
  }

  /** The state with all proposed facts, for policies that are asked in the same turn as they propose. */
  tail<S extends AnyMachineSnapshot>(stream: string): S | undefined {
    return this.instances.get(stream)?.tail as S | undefined;
  }

  /** The state of durable facts. */
  snapshot<S extends AnyMachineSnapshot>(stream: string): S | undefined {
    return this.instances.get(stream)?.snapshot as S | undefined;
  }

  instance(stream: string): Instance | undefined {
    return this.instances.get(stream);
  }

  onFact(listener: FactListener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Folds a stream from the store into memory. Its effects are not asked for again, and its deadlines wait for its next fact. */
  async load(stream: string): Promise<AnyMachineSnapshot | undefined> {
    const instance = await foldStream(this.options.store, stream);
    if (instance === undefined) return undefined;
    this.instances.set(stream, instance);
    return instance.snapshot;
  }

  /** Leaves a finished machine to the store. */
  forget(stream: string): void {
    const instance = this.instances.get(stream);
    if (instance === undefined) return;
    instance.disarm?.();
    this.instances.delete(stream);
    instance.wake();
  }

  /** Timers off; whoever follows a stream is let go. */
  close(): void {
    this.closed = true;
    for (const instance of this.instances.values()) {
      instance.disarm?.();
      instance.disarm = null;
      instance.wake();
    }
    this.listeners.clear();
  }

  private draft(proposals: readonly Proposal[], at: number): Pending[] {
    const drafts = new Map<
      string,
      { instance: Instance; tail: AnyMachineSnapshot | null; version: number }
    >();
    return proposals.map(({ stream, fact }) => {
      const dated = { ...fact, at } as AnyEvent;
      const known = this.instances.get(stream);
      const draft =
        drafts.get(stream) ??
        (known && { instance: known, tail: known.tail, version: known.tailVersion });
      const next =
        draft === undefined || draft.tail === null
          ? init(definitionOf(stream).machine, dated)
          : this.advance(stream, draft.tail, dated);
      const instance = draft?.instance ?? new Instance(stream, next.snapshot, 0);
      const version = (draft?.version ?? 0) + 1;
      drafts.set(stream, { instance, tail: next.snapshot, version });
      const { type, at: _, ...data } = dated as AnyEvent & Record<string, unknown>;
      const event: StoredEvent = {
        seq: 0,
        stream,
        version,
        type,
        schema: SCHEMA_VERSION,
        at,
        boot_id: this.options.boot_id,
        data,
      };
      const row =
        stream.startsWith(RUN_PREFIX) && type !== 'run.output_appended'
          ? runRow(next.snapshot as unknown as RunSnapshot, 0)
          : null;
      return { event, instance, snapshot: next.snapshot, effects: next.effects, row, settle: null };
    });
  }

  private advance(stream: string, tail: AnyMachineSnapshot, fact: AnyEvent) {
    if (!can(tail, fact)) {
      const state = statePath(tail);
      throw new SvcError('event_refused', `${fact.type} is not accepted in the state ${state}.`, {
        details: { state, accepted: accepted(tail) },
      });
    }
    return step(definitionOf(stream).machine, tail, fact);
  }

  /** The order is: state, then those who follow, then effects; the proposer is told last. */
  private publish(item: Pending): void {
    const { instance, event, snapshot, effects } = item;
    instance.commit(event, snapshot, effects.length === 0 ? 0 : this.clock.now() - event.at);
    this.arm(instance);
    for (const listener of this.listeners) listener(event, snapshot);
    for (const [index, effect] of effects.entries())
      this.options.perform(effect, `${event.stream}:${event.version}:${index}`);
  }

  /** Sets the timer of an instance to its earliest deadline; one that moved later is looked at again when it fires. */
  private arm(instance: Instance, notBefore = 0): void {
    const at = Math.max(
      notBefore,
      Math.min(...instance.deadlines().map((deadline) => deadline.at)),
    );
    if (at >= instance.armedFor) return;
    instance.disarm?.();
    instance.armedFor = at;
    instance.disarm =
      at === Number.POSITIVE_INFINITY
        ? null
        : this.clock.after(at - this.clock.now(), () => this.fire(instance));
  }

  private fire(instance: Instance): void {
    instance.armedFor = Number.POSITIVE_INFINITY;
    const now = this.clock.now();
    const passed = instance.deadlines().filter((deadline) => deadline.at <= now);
    const due = passed.find((deadline) => this.accepts(instance.stream, deadline.event));
    if (due !== undefined) {
      this.append([{ stream: instance.stream, fact: due.event }]).catch((error: unknown) =>
        this.options.log.error(
          { err: error, stream: instance.stream },
          'a deadline could not be recorded',
        ),
      );
    }
    this.arm(instance, passed.length > 0 && due === undefined ? now + REFUSED_AGAIN_MS : 0);
  }
}
