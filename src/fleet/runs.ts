import type { RunSnapshot } from '../../machines/run/chart.ts';
import { isTerminalEvent } from '../../machines/run/context.ts';
import { pause } from '../async/clock.ts';
import { Notifier } from '../async/notifier.ts';
import type { RunRecord } from '../contract/contract.ts';
import { SvcError } from '../errors.ts';
import type { Elsewhere, Watch } from '../kernel/elsewhere.ts';
import { foldStream } from '../kernel/fold.ts';
import type { Instance } from '../kernel/instance.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { EventStore } from '../kernel/store/port.ts';
import { type DaemonKey, type RunKey, type StreamKey, stream } from '../kernel/stream.ts';
import type { Limits } from '../limits.ts';
import type { Log } from '../ports/log.ts';
import type { Placement, PlacementHealth } from '../runtime/placement.ts';
import { runRecord } from '../runtime/runs/record.ts';
import { unknownRun } from '../runtime/runs/run-errors.ts';
import type { Scheduler } from '../runtime/runs/scheduler.ts';
import { Claims, needOf, type Offer } from './claims.ts';
import { FleetKeys } from './keys.ts';
import type { LeaseKeeper } from './lease-keeper.ts';
import { ModelFiles } from './model-files.ts';
import { Nodes } from './nodes.ts';
import type { Fleet, FleetChange, Look, SharedStore } from './port.ts';
import { Releases } from './releases.ts';

export interface FleetRunsOptions {
  store: SharedStore;
  kernel: Kernel;
  scheduler: Scheduler;
  /** Stream of this boot's daemon machine. */
  daemon: DaemonKey;
  /** The models that this node can call now. */
  offers(): readonly Offer[];
  /** Which file a model of this node is. Null: none, or it cannot be read. */
  fileOf(provider: string, model: string): Promise<string | null>;
  limits: Pick<Limits, 'fleet_poll_ms' | 'lease_ms' | 'queue_ms' | 'queue_runs'>;
  log: Log;
  /** Absent in tests of the runs alone: the lease of this node is not kept. */
  keeper?: Pick<LeaseKeeper, 'confirm' | 'health' | 'recordTakeOver'>;
  /** False: this node starts no new run, and takes no waiting one. */
  takesRuns?(): boolean;
}

/**
 * The runs of a fleet, as one of its nodes sees them. It owns the notices of the fleet, the poll
 * that makes up for lost notices, and the number of waiting runs.
 *
 * 1. A run that is accepted here starts here, or is released at once. See `releases.ts`.
 * 2. A free place takes the next run of the fleet. See `claims.ts`.
 * 3. Runs of other nodes are read from the log each time. No node keeps them in memory.
 */
export class FleetRuns implements Placement {
  readonly elsewhere: Changes;
  readonly nodes: Nodes;
  private readonly keys: FleetKeys;
  private readonly options: FleetRunsOptions;
  private readonly releases: Releases;
  private readonly claims: Claims;
  private readonly files: ModelFiles;
  private readonly cancels: Cancels;
  private readonly closing = new AbortController();
  /** Waiting runs without a node, as this node knows them. */
  private waiting = 0;

  constructor(options: FleetRunsOptions) {
    this.options = options;
    const { store, kernel, scheduler, daemon, limits, log } = options;
    const { fleet } = store;
    const poll_ms = limits.fleet_poll_ms;
    this.elsewhere = new Changes(fleet, kernel);
    this.nodes = new Nodes(fleet, Date.now);
    this.keys = new FleetKeys(fleet, kernel.clock, limits.lease_ms);
    const { offers, fileOf } = options;
    // Each node polls several times in this time.
    const keep_ms = Math.max(limits.lease_ms, 3 * poll_ms);
    this.files = new ModelFiles({ fleet, kernel, keep_ms, offers, fileOf });
    this.claims = new Claims({
      fleet,
      store,
      kernel,
      scheduler,
      daemon,
      log,
      keep_ms,
      files: this.files,
      isReleasing: (run_id) => this.releases.isSending(run_id),
      providers: () => (this.takesRuns ? offers() : []),
      onCutOff: () => this.serveCancels(),
      onWaiting: (run_id) => this.releases.consider(run_id),
    });
    this.releases = new Releases({
      fleet,
      kernel,
      scheduler,
      poll_ms,
      log,
      isOffered: ({ provider, model }) =>
        offers().some((one) => one.provider === provider && (one.models?.includes(model) ?? true)),
      onReleased: (runs) => {
        this.waiting += runs;
        this.claims.expect();
      },
    });
    const { elsewhere: changes, claims } = this;
    this.cancels = new Cancels({ fleet, store, kernel, changes, claims, poll_ms, log });
    // A new run does not start before those that wait, and no place is reserved.
    scheduler.shareQueue((provider) => !this.takesRuns || claims.hasOthersWaiting(provider));
    kernel.onProposed('run', ({ type }) => {
      if (isTerminalEvent(type)) claims.lookAgain();
    });
  }

  findOrStartRun: Placement['findOrStartRun'] = (...args) => this.keys.runOnce(...args);

  runExclusive: Placement['runExclusive'] = (...args) => this.keys.runAlone(...args);

  private get takesRuns(): boolean {
    return this.options.takesRuns?.() ?? true;
  }

  /** Called once the daemon is ready. */
  start(): void {
    this.options.store.fleet.onChange((change) => this.handleChange(change), this.closing.signal);
    this.claims.start();
    this.releases.start();
    void this.poll();
  }

  /** From now on this node takes no runs, and releases none. */
  close(): void {
    this.closing.abort();
    this.claims.close();
    this.releases.close();
    this.elsewhere.wakeAll();
  }

  /**
   * Throws busy when the fleet has as many waiting runs as a node accepts. `part`: the part of
   * these places that the asker may use.
   */
  checkRoom(part: number): void {
    const { queue_runs } = this.options.limits;
    if (this.waiting < Math.max(1, Math.floor(queue_runs * part))) return;
    throw new SvcError(
      'busy',
      `${this.waiting} runs wait in the fleet, as many as a node accepts.`,
      { details: { retry_after_ms: this.options.limits.fleet_poll_ms } },
    );
  }

  async confirm(): Promise<void> {
    await this.options.keeper?.confirm();
  }

  /** False: it has events that are not known to be durable, which another node may already read. */
  isCurrent({ version, tailVersion }: Pick<Instance, 'version' | 'tailVersion'>): boolean {
    return version === tailVersion;
  }

  async awaitAbsent(): Promise<void> {}

  async whenRecovered(): Promise<void> {}

  async runsElsewhere(asked_by: string, limit: number): Promise<string[]> {
    const { store, kernel } = this.options;
    const runs = await store.listRuns({ asked_by, unfinished: true, short: true, limit });
    return runs.map(({ run_id }) => run_id).filter((id) => !kernel.instances.has(id as RunKey));
  }

  health(at: string): PlacementHealth {
    return this.options.keeper?.health(at) ?? { trouble: null, checks: {} };
  }

  /** An unfinished run of another node, or of none. Throws run_unknown. */
  async record(run_id: string): Promise<RunRecord> {
    const { store } = this.options;
    const instance = await foldStream(store, run_id);
    if (instance === undefined) throw unknownRun(run_id);
    const place = instance.snapshot.hasTag('queued') ? await store.fleet.position(run_id) : null;
    return runRecord(instance.snapshot, instance.seq, place);
  }

  /** The need of a run without a node, as text. Null: it has ended, or a node has it. */
  async waitsFor(run_id: string): Promise<string | null> {
    const { store, limits } = this.options;
    const [head, owner] = await Promise.all([store.runHead(run_id), store.fleet.ownerOf(run_id)]);
    if (head === null || head.finished || owner !== null) return null;
    const snapshot = (await foldStream(store, run_id))?.snapshot as RunSnapshot | undefined;
    if (snapshot === undefined || snapshot.status !== 'active') return null;
    const most = snapshot.hasTag('queued') ? '' : `, for ${limits.queue_ms / 1000} s at most`;
    const node =
      (await this.wrongClocksText()) ?? `a node with ${needOf(snapshot)} and a free place`;
    return node + most;
  }

  /** Names the clocks, if none of a living node is right. Null: one is right. */
  private async wrongClocksText(): Promise<string | null> {
    const living = (await this.options.store.fleet.nodes()).filter(
      ({ lease_ms_left }) => lease_ms_left > 0,
    );
    const isWrong = living.length > 0 && living.every(({ clock }) => clock?.takes_runs === false);
    if (!isWrong) return null;
    const names = living.map(({ node_id }) => node_id).sort();
    const are =
      names.length === 1 ? `the clock of ${names[0]} is` : `the clocks of ${names.join(', ')} are`;
    return `a node whose clock is right: ${are} wrong`;
  }

  /** Resolves when the run has ended, or is here. Throws daemon_stopping. */
  cancel(run_id: RunKey, by: string): Promise<void> {
    return this.cancels.cancel(run_id, by);
  }

  private handleChange(change: FleetChange): void {
    this.elsewhere.noteChange(change);
    if (change.waiting) this.claims.expect();
    if (change.asks) this.serveCancels();
  }

  private serveCancels(): void {
    this.cancels
      .serve()
      .catch((error: unknown) => this.options.log.warn({ err: error }, 'cancels are not read yet'));
  }

  /** Reads again and again what the notices say, because a notice may be lost. */
  private async poll(): Promise<void> {
    const { kernel, limits, log, scheduler } = this.options;
    while (!this.closing.signal.aborted) {
      try {
        const { last_seq, asks, waiting } = await this.readFleet();
        this.elsewhere.noteLast(last_seq);
        this.waiting = waiting.runs;
        if (!this.closing.signal.aborted) await this.files.answer(waiting);
        for (const run_id of waiting.due) await this.claims.takeOne(run_id, 'due');
        for (const run_id of waiting.left) await this.claims.takeOne(run_id, 'left');
        // This node may take runs again, so waiting ones may start.
        if (this.waiting > 0 || scheduler.queued > 0) this.claims.expect();
        this.claims.lookAgain();
        if (asks) await this.cancels.serve();
      } catch (error) {
        log.debug({ err: error }, 'the fleet could not be asked');
      }
      await pause(kernel.clock, limits.fleet_poll_ms, this.closing.signal);
    }
  }

  /** Reads the fleet in one statement. If a node must be fenced, a second one reads its runs. */
  private async readFleet(): Promise<Look> {
    const { limits, offers, store, keeper } = this.options;
    const lists = offers().filter(({ models }) => models !== null);
    const query = {
      most: limits.queue_runs,
      left_ms: limits.queue_ms,
      lists: lists.map(({ provider }) => provider),
      listed: lists.flatMap(({ provider, models }) => models?.map((m) => `${provider}/${m}`) ?? []),
    };
    const look = await store.fleet.look(query);
    const taken = look.late ? await store.fleet.takeOver() : [];
    if (taken.length === 0) return look;
    keeper?.recordTakeOver(taken);
    return store.fleet.look(query);
  }
}

interface CancelsOptions {
  fleet: Pick<Fleet, 'ask' | 'listCancels'>;
  store: Pick<EventStore, 'runHead'>;
  kernel: Kernel;
  changes: Elsewhere;
  claims: Pick<Claims, 'takeOne'>;
  poll_ms: number;
  log: Log;
}

/**
 * Cancels runs of other nodes, and runs of this node that other nodes ask to cancel.
 *
 * 1. A run that waits on no node is taken, and cancelled here.
 * 2. Otherwise the node that owns the run is asked to cancel it. The request is stored, so a
 *    successor of that node finds it.
 * 3. The asking node checks at each poll whether the run has lost its owner since.
 */
class Cancels {
  private readonly options: CancelsOptions;

  constructor(options: CancelsOptions) {
    this.options = options;
  }

  /** Resolves when the run has ended, or is in this kernel. Throws daemon_stopping. */
  async cancel(run_id: RunKey, by: string): Promise<void> {
    const { kernel, changes, claims, fleet, poll_ms } = this.options;
    const watch = changes.watch(run_id);
    try {
      for (let asked_at = Number.NEGATIVE_INFINITY; ; ) {
        if (kernel.closed) throw new SvcError('daemon_stopping');
        if (kernel.instance(run_id) !== undefined || (await this.isOver(run_id))) return;
        const now = kernel.clock.now();
        if (now - asked_at >= poll_ms) {
          asked_at = now;
          if (await claims.takeOne(run_id, { by })) return;
          await fleet.ask(run_id, by);
        }
        await this.awaitChange(watch, asked_at + poll_ms - now);
      }
    } finally {
      watch.end();
    }
  }

  /** Cancels the runs of this node that others ask to cancel. */
  async serve(): Promise<void> {
    const { fleet, kernel, log } = this.options;
    for (const { run_id, by } of await fleet.listCancels())
      kernel
        .tryAppend(stream.run(run_id), { type: 'run.cancel_requested', by })
        .catch((error: unknown) => log.error({ err: error, run_id }, 'a run is not cancelled'));
  }

  private async isOver(run_id: RunKey): Promise<boolean> {
    const head = await this.options.store.runHead(run_id);
    return head === null || head.finished;
  }

  /** Resolves at the next change of the run, or after `ms`. */
  private async awaitChange(watch: Watch, ms: number): Promise<void> {
    const over = new AbortController();
    const cancel = this.options.kernel.clock.after(ms, () => over.abort());
    await watch.next(over.signal);
    cancel();
  }
}

/**
 * Notices of events that any node appends to the shared log. It owns the last known position, and
 * the watchers.
 *
 * 1. The position never decreases. Everything up to it is committed, so a reader finds it.
 * 2. Without lost notices, a watcher misses no change after it began to watch.
 * 3. The next poll finds a lost notice. Then every watcher reads again.
 */
class Changes implements Elsewhere {
  last_seq = 0;
  private readonly fleet: Pick<Fleet, 'lastSeq'>;
  private readonly kernel: Kernel;
  private readonly watchers = new Map<string, Set<Watcher>>();

  constructor(fleet: Pick<Fleet, 'lastSeq'>, kernel: Kernel) {
    this.fleet = fleet;
    this.kernel = kernel;
    // Own commits are changes too. Their notices may come later, or not at all.
    kernel.subscribe('all', ({ seq, stream }) => this.advance(seq, [stream]));
  }

  /** A notice of the fleet. */
  noteChange({ last_seq, streams }: Pick<FleetChange, 'last_seq' | 'streams'>): void {
    this.advance(last_seq, streams);
  }

  async lastSeq(): Promise<number> {
    this.noteLast(await this.fleet.lastSeq());
    return this.last_seq;
  }

  /** The last position of the log, as the database says. */
  noteLast(seq: number): void {
    if (seq > this.last_seq) this.advance(seq, 'all');
  }

  watch(topic: StreamKey | 'all'): Watch {
    const watcher = new Watcher(this.kernel);
    const ofTopic = this.watchers.get(topic) ?? new Set();
    this.watchers.set(topic, ofTopic.add(watcher));
    return {
      next: (signal) => watcher.next(signal),
      end: () => {
        ofTopic.delete(watcher);
        if (ofTopic.size === 0 && this.watchers.get(topic) === ofTopic) this.watchers.delete(topic);
      },
    };
  }

  /** Has every watcher read again, such as when the kernel closes. */
  wakeAll(): void {
    for (const topic of [...this.watchers.keys()]) this.wake(topic);
  }

  private advance(seq: number, streams: FleetChange['streams']): void {
    this.last_seq = Math.max(this.last_seq, seq);
    if (streams === 'all') this.wakeAll();
    else if (streams.length > 0) for (const stream of [...streams, 'all']) this.wake(stream);
  }

  private wake(topic: string): void {
    for (const watcher of this.watchers.get(topic) ?? []) watcher.notify();
  }
}

/** Remembers a change until the next call of `next`. */
class Watcher {
  private readonly kernel: Kernel;
  private readonly changed = new Notifier();
  private isNew = false;

  constructor(kernel: Kernel) {
    this.kernel = kernel;
  }

  notify(): void {
    this.isNew = true;
    this.changed.notify();
  }

  async next(signal?: AbortSignal): Promise<boolean> {
    if (!this.isNew && !this.kernel.closed) await this.changed.next(signal);
    this.isNew = false;
    return true;
  }
}
