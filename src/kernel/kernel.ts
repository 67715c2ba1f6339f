import { EventEmitter } from 'node:events';
import type { AnyMachineSnapshot } from 'xstate';
import type { Effect } from '../../machines/effects.ts';
import type { AnyEvent, NewEvent } from '../../machines/events.ts';
import { can } from '../../machines/step.ts';
import type { Clock } from '../async/clock.ts';
import { Notifier } from '../async/notifier.ts';
import { ShortLived } from '../async/short-lived.ts';
import { SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { EffectHandlers, Log } from '../ports/log.ts';
import { Committer, type Count, type Pending } from './committer.ts';
import type { KernelStore } from './content.ts';
import { foldStream, streamIn } from './fold.ts';
import type { Instance } from './instance.ts';
import { draft, Refusal } from './instance.ts';
import { Publisher } from './publisher.ts';
import { Stalls } from './stalls.ts';
import type { RunRow, StoredEvent } from './store/port.ts';
import type { EventOf, KeyOf, MachineName, Proposal, SnapshotOf, StreamKey } from './stream.ts';

/**
 * The single writer: it owns the state of every machine and the order of events.
 *
 * 1. An event is durable before its state, its effects or the event itself are visible. The
 *    exception is the time before the store is open: the state is visible at once, so that clients
 *    see `starting`.
 * 2. An append is accepted whole or not at all, by the machines.
 * 3. Timers come from the deadlines of durable states.
 * 4. Events that a policy appends when it hears a proposal come after it in the log. They mostly
 *    share its commit.
 * 5. The acceptance and the end of a run also move the daemon: see `machines/daemon/counts.ts`.
 */

export interface KernelOptions {
  store: KernelStore;
  /** The database of the log in messages. Null or absent: a disk. */
  place?: string | null;
  clock: Clock;
  limits: Limits;
  boot_id: string;
  log: Log;
  /** The row that is committed together with an event; null where the event changes none. */
  project: (event: StoredEvent, snapshot: AnyMachineSnapshot) => RunRow | null;
  /** The store cannot be trusted any more. */
  onFatal(error: SvcError): void;
}

/** Hears each durable event, in log order, with the state after it. */
export type EventListener<K extends StreamKey> = (
  event: StoredEvent & { stream: K },
  snapshot: SnapshotOf<K>,
) => void;

export class Kernel {
  readonly clock: Clock;
  /** Of the events that it appends. */
  readonly boot_id: string;
  /** No more events come: followers end. */
  closed = false;
  /** Output is stored without its text: only a run in memory has it. */
  readonly omitsOutput: boolean;
  private readonly options: KernelOptions;
  private readonly committer: Committer;
  private readonly publisher: Publisher;
  private readonly timers: DeadlineTimers;
  /** Whether the disk takes commits. */
  readonly stalls: Stalls;
  /** Hears the milliseconds of each durable commit. */
  readonly commits = new Notifier<number>();
  /** Hears by how many milliseconds the clock jumped, such as after sleep. */
  readonly jumps = new Notifier<number>();
  readonly instances = new ShortLived<string, Instance>();
  /** By key of a stream, name of a machine, or `all`. */
  private readonly listeners = new EventEmitter().setMaxListeners(0);
  /** By name of a machine. */
  private readonly proposals = new EventEmitter().setMaxListeners(0);
  private handlers: EffectHandlers | null = null;

  constructor(options: KernelOptions) {
    this.options = options;
    this.boot_id = options.boot_id;
    this.clock = options.clock;
    this.clock.onJump?.((ms) => {
      for (const instance of this.instances.values()) instance.jump(ms);
      this.jumps.notify(ms);
    });
    this.omitsOutput = options.store.omitsOutput === true;
    this.stalls = new Stalls({
      clock: options.clock,
      log: options.log,
      place: options.place ?? null,
      late_ms: options.limits.commit_late_ms,
    });
    this.timers = new DeadlineTimers(this, options.log);
    this.publisher = new Publisher({
      publish_events: options.limits.publish_events,
      show: (item) => this.show(item),
      shown: (instance) => {
        if (this.instances.get(instance.stream) === instance) this.timers.arm(instance);
      },
    });
    this.committer = new Committer({
      ...options,
      stalls: this.stalls,
      commit_events: options.limits.commit_events,
      onDurable: (items, ms) => {
        this.commits.notify(ms);
        this.publisher.add(items);
      },
    });
  }

  /** Position of the last durable event that is visible. */
  get durableSeq(): number {
    return this.publisher.seq;
  }

  /** Events that wait for their commit, or to be visible after it. */
  get backlog(): number {
    return this.committer.backlog + this.publisher.backlog;
  }

  get lastCommitMs(): number | null {
    return this.committer.lastCommitMs;
  }

  /** Why the disk takes no commits: store_full or store_stalled; null when it does. */
  get stalled(): SvcError | null {
    return this.stalls.cause;
  }

  /** Set when the outcome of a commit is unknown: nothing more is acknowledged. */
  get failure(): SvcError | null {
    return this.committer.failure;
  }

  get isOpen(): boolean {
    return this.committer.isOpen;
  }

  /** The store is open. All pending events become the first commit. */
  open(last_seq: number): void {
    this.publisher.seq = last_seq;
    this.committer.open(last_seq);
  }

  /**
   * Appends events together: all or none. Resolves once they are durable.
   * Rejects with event_refused when a machine refuses its event; then nothing has changed.
   */
  async append(proposals: readonly Proposal[]): Promise<void> {
    const drafted = this.draft(proposals);
    if (drafted instanceof Refusal) throw drafted.error;
    await this.propose(drafted);
  }

  /** Appends one event; false when the machine refuses it. */
  async tryAppend<K extends StreamKey>(stream: K, event: NewEvent<EventOf<K>>): Promise<boolean> {
    if (!this.instances.has(stream)) return false;
    const drafted = this.draft([{ stream, event } as Proposal]);
    if (drafted instanceof Refusal) return false;
    await this.propose(drafted);
    return true;
  }

  private draft(proposals: readonly Proposal[]): Pending[] | Refusal {
    const { boot_id, project } = this.options;
    return draft(proposals, { at: this.clock.now(), boot_id, instances: this.instances, project });
  }

  protected propose(drafted: readonly Pending[]): Promise<void> {
    if (this.committer.failure !== null) throw this.committer.failure;
    for (const { instance, snapshot, count } of drafted) {
      instance.tail = snapshot;
      instance.tailVersion += 1;
      if (count !== null) count.daemon.tail = count.snapshot;
      this.instances.set(instance.stream, instance);
      if (!this.isOpen) {
        instance.snapshot = snapshot;
        this.timers.arm(instance);
      }
    }
    const recorded = this.committer.push(drafted);
    for (const { event, instance, snapshot } of drafted)
      this.proposals.emit(instance.machine.id, event, snapshot);
    return recorded;
  }

  accepts<K extends StreamKey>(stream: K, event: NewEvent<EventOf<K>>): boolean {
    const instance = this.instances.get(stream);
    return (
      instance !== undefined && can(instance.tail, { ...event, at: this.clock.now() } as AnyEvent)
    );
  }

  /**
   * The state after all proposed events, for policies that decide in the same turn as they propose.
   */
  tail<K extends StreamKey>(stream: K): SnapshotOf<K> | undefined {
    return this.instance(stream)?.tail;
  }

  /** The state after the durable events. */
  snapshot<K extends StreamKey>(stream: K): SnapshotOf<K> | undefined {
    return this.instance(stream)?.snapshot;
  }

  instance<K extends StreamKey>(stream: K): Instance<SnapshotOf<K>> | undefined {
    return this.instances.get(stream) as Instance<SnapshotOf<K>> | undefined;
  }

  /**
   * Hears the events of a stream, of a machine, or of the log. It ends with the signal or the
   * kernel.
   */
  subscribe<K extends StreamKey>(
    topic: { stream: K },
    listener: EventListener<K>,
    signal?: AbortSignal,
  ): void;
  subscribe<M extends MachineName>(
    topic: { machine: M },
    listener: EventListener<KeyOf<M>>,
    signal?: AbortSignal,
  ): void;
  subscribe(topic: 'all', listener: EventListener<StreamKey>, signal?: AbortSignal): void;
  subscribe(
    topic: { stream: StreamKey } | { machine: MachineName } | 'all',
    listener: (event: never, snapshot: never) => void,
    signal?: AbortSignal,
  ): void {
    if (signal?.aborted) return;
    const name = topic === 'all' ? topic : 'stream' in topic ? topic.stream : topic.machine;
    const deliver = listener as (...args: unknown[]) => void;
    this.listeners.on(name, deliver);
    signal?.addEventListener('abort', () => this.listeners.off(name, deliver));
  }

  /**
   * Hears each accepted proposal of a machine, with the state after it, before it is durable. It is
   * for policies that decide in the same turn. Clients never see that state.
   */
  onProposed<M extends MachineName>(machine: M, listener: EventListener<KeyOf<M>>): void {
    this.proposals.on(machine, listener as (...args: unknown[]) => void);
  }

  /**
   * Resolves when a durable state satisfies the predicate, or the machine is gone.
   * Rejects with daemon_stopping when the kernel closes first, or with the reason of the signal.
   */
  async waitFor<K extends StreamKey>(
    stream: K,
    predicate: (snapshot: SnapshotOf<K>) => boolean,
    signal?: AbortSignal,
  ): Promise<void> {
    const instance = this.instance(stream);
    while (instance !== undefined && !predicate(instance.snapshot)) {
      if (this.instances.get(stream) !== instance) return;
      if (this.closed) throw new SvcError('daemon_stopping');
      signal?.throwIfAborted();
      await instance.next(signal);
    }
  }

  /** Registers the function that performs the effects. Call it once, before `open`. */
  handle(handlers: EffectHandlers): void {
    this.handlers = handlers;
  }

  /**
   * Folds a stream from the store into memory. It performs no effects, and sets no timer before the
   * next event. `events`: the whole stream, where the caller has it.
   */
  async load<K extends StreamKey>(
    stream: K,
    events: readonly StoredEvent[] | null = null,
  ): Promise<SnapshotOf<K> | undefined> {
    const source = events === null ? this.options.store : streamIn(events);
    const instance = await foldStream(source, stream);
    if (instance === undefined) return undefined;
    this.instances.set(stream, instance);
    return this.snapshot(stream);
  }

  /** Resumes a machine that was folded from the store, as `load` does. */
  adopt(instance: Instance): void {
    this.instances.set(instance.stream, instance);
  }

  /** Drops a finished machine from memory; the store keeps it. */
  forget(stream: StreamKey): void {
    const instance = this.instances.get(stream);
    if (instance === undefined) return;
    instance.disarm?.();
    this.instances.delete(stream);
    instance.wake();
  }

  /** Stops the timers and ends the followers. */
  close(): void {
    this.closed = true;
    for (const instance of this.instances.values()) {
      instance.disarm?.();
      instance.disarm = null;
      instance.wake();
    }
    this.listeners.removeAllListeners();
    this.proposals.removeAllListeners();
  }

  /** The order is: state, followers, listeners, effects. */
  private show({ instance, event, snapshot, effects, count }: Pending): void {
    instance.commit(event, snapshot, effects.length === 0 ? 0 : this.clock.now() - event.at);
    count?.daemon.follow(event, count.snapshot);
    this.listeners.emit(event.stream, event, snapshot);
    this.listeners.emit(instance.machine.id, event, snapshot);
    this.listeners.emit('all', event, snapshot);
    if (count !== null) this.showCount(event, count);
    for (let index = 0; index < effects.length; index += 1)
      this.perform(effects[index] as Effect, `${event.stream}:${event.version}:${index}`);
  }

  /** The listeners of the daemon hear of it like of its events. */
  private showCount({ stream, ...event }: StoredEvent, { daemon, type, snapshot }: Count): void {
    const { stream: key, version, machine } = daemon;
    const said = { ...event, stream: key, version, type, data: { run_id: stream } };
    this.listeners.emit(key, said, snapshot);
    this.listeners.emit(machine.id, said, snapshot);
  }

  private perform({ type, params }: Effect, id: string): void {
    if (this.handlers === null) throw new Error(`no handler performs ${type}`);
    (this.handlers[type] as (params: unknown, id: string) => void)(params, id);
  }
}

/** Time between two tries of a deadline that its machine refuses. */
const REFUSED_AGAIN_MS = 100;

/** Proposes the events of deadlines when their time comes. An instance has one timer at most. */
class DeadlineTimers {
  private readonly kernel: Pick<Kernel, 'clock' | 'append'>;
  private readonly log: Log;

  constructor(kernel: DeadlineTimers['kernel'], log: Log) {
    this.kernel = kernel;
    this.log = log;
  }

  /** Sets the timer to the earliest deadline. A timer that fires too early is set again. */
  arm(instance: Instance, notBefore = 0): void {
    const { clock } = this.kernel;
    let first = Number.POSITIVE_INFINITY;
    for (const { at } of instance.deadlines()) if (at < first) first = at;
    const at = Math.max(notBefore, first);
    if (at >= instance.armedFor) return;
    instance.disarm?.();
    instance.armedFor = at;
    instance.disarm = clock.after(at - clock.now(), () => this.fire(instance));
  }

  private fire(instance: Instance): void {
    instance.armedFor = Number.POSITIVE_INFINITY;
    const now = this.kernel.clock.now();
    const passed = instance.deadlines().filter((deadline) => deadline.at <= now);
    const due = passed.find((deadline) =>
      can(instance.tail, { ...deadline.event, at: now } as AnyEvent),
    );
    if (due !== undefined) {
      const { stream } = instance;
      this.kernel
        .append([{ stream, event: due.event } as Proposal])
        .catch((error: unknown) =>
          this.log.error({ err: error, stream }, 'a deadline could not be recorded'),
        );
    }
    this.arm(instance, passed.length > 0 && due === undefined ? now + REFUSED_AGAIN_MS : 0);
  }
}
