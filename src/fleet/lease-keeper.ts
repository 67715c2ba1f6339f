import type { DaemonEvent } from '../../machines/daemon/context.ts';
import type { NewEvent } from '../../machines/events.ts';
import type { LeaseEvent } from '../../machines/lease.ts';
import { isIn } from '../../machines/step.ts';
import type { Clock } from '../async/clock.ts';
import { asSvcError, hasCode, SvcError } from '../errors.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { type LeaseKey, stream } from '../kernel/stream.ts';
import type { Limits } from '../limits.ts';
import type { Log } from '../ports/log.ts';
import type { PlacementHealth } from '../runtime/placement.ts';
import type { FleetClock } from './clock.ts';
import type { Fleet, JoinResult, NodeFacts, NodeLoad, TakenOver } from './port.ts';

export interface LeaseKeeperOptions {
  fleet: Pick<Fleet, 'join' | 'renew' | 'leave' | 'time'>;
  kernel: Kernel;
  /** Measures the lease. It may jump ahead: then the database is queried. */
  clock: Clock;
  /** The time of the fleet. */
  time: Pick<FleetClock, 'follow' | 'report' | 'trouble'>;
  log: Log;
  limits: Pick<Limits, 'lease_renew_ms'>;
  node: Pick<NodeFacts, 'node_id' | 'boot_id' | 'host'>;
  load(): Omit<NodeLoad, 'clock'>;
  /** This boot can write nothing any more. Called once. */
  onLost(error: SvcError): void;
  /** Someone asks this node to finish its work and stop. Called once. */
  onDrain(): void;
}

/**
 * Keeps the lease of this boot. It owns the timer of the renewals, and the answer of the last one.
 *
 * 1. The node joins before the kernel opens, so its first commit already has a lease.
 * 2. One renewal runs at a time. The next one begins `lease_renew_ms` after it began, or when it
 *    ends.
 * 3. Only the database says that the lease is lost. Until then the node tries to renew it.
 * 4. Who takes a node over records its loss. Else the next boot of that node does.
 * 5. The lease is recorded as left in the commit of the end of the daemon. Then it is released.
 * 6. The clock of the fleet is read before the first event of the lease, and after each renewal.
 */
export class LeaseKeeper {
  private readonly options: LeaseKeeperOptions;
  private readonly key: LeaseKey;
  private readonly closing = new AbortController();
  private joined: JoinResult | null = null;
  private failing: SvcError | null = null;
  /** When the last renewal that succeeded was sent. */
  private renewed_at = 0;
  private renewing: Promise<void> | null = null;
  private isDraining = false;

  constructor(options: LeaseKeeperOptions) {
    this.options = options;
    this.key = stream.lease(options.node.node_id, options.node.boot_id);
    options.kernel.onProposed('daemon', ({ type, data }, daemon) => {
      if (daemon.status === 'done') this.record(...this.makeEndEvents());
      else if ((type as DaemonEvent['type']) === 'daemon.stop_requested')
        this.record({
          type: 'lease.leave_requested',
          leave_deadline_at: Number(data.close_deadline_at),
        });
    });
  }

  /** The lease and the clock of this node, as checks of its health. */
  health(time: string): PlacementHealth {
    if (this.joined === null) return { trouble: null, checks: {} };
    const trouble = this.failing?.message ?? null;
    const { report, trouble: clockTrouble } = this.options.time;
    const checks: PlacementHealth['checks'] = {
      'node:lease': [
        {
          status: trouble === null ? 'pass' : 'warn',
          componentType: 'component',
          observedValue: this.joined.epoch,
          observedUnit: 'epoch',
          time,
          ...(trouble === null ? {} : { output: trouble }),
        },
      ],
    };
    if (report !== null)
      checks['node:clock'] = [
        {
          status: report.takes_runs ? 'pass' : 'warn',
          componentType: 'system',
          observedValue: report.clock_ms,
          observedUnit: 'ms',
          time,
          ...(clockTrouble === null ? {} : { output: clockTrouble }),
        },
      ];
    return { trouble: trouble ?? clockTrouble, checks };
  }

  /**
   * Resolves if no other node can have the runs of this one. Asks the database when the lease may
   * have ended, such as after a pause of this process. Throws lease_lost, store_stalled.
   */
  async confirm(): Promise<void> {
    if (!this.mayBeOver) return;
    const { signal } = this.closing;
    if (!signal.aborted) await this.renewOnce();
    if (signal.aborted) throw new SvcError('lease_lost');
    if (this.mayBeOver) throw this.failing ?? new SvcError('store_stalled');
  }

  /**
   * Takes the lease, and renews it from now on. It waits once for the lease of a boot that died
   * without a word. Throws daemon_already_running if that boot still renews it.
   */
  async join(
    facts: Omit<NodeFacts, 'node_id' | 'boot_id' | 'host' | 'clock'>,
    replaces: string | null,
  ): Promise<JoinResult> {
    const { fleet, kernel, node, log, time } = this.options;
    await time.follow(fleet);
    if (time.trouble !== null) log.warn({ ...time.report }, time.trouble);
    kernel
      .append([{ stream: this.key, event: { type: 'lease.requested', ...node } }])
      .catch(() => {});
    const join = () => fleet.join({ ...node, ...facts, clock: time.report }, replaces);
    this.renewed_at = this.options.clock.now();
    const joined = await join().catch(async (error: unknown) => {
      const wait_ms = restOf(error);
      if (wait_ms === null) throw error;
      log.warn({ wait_ms }, 'the last daemon of this node has still a lease: waits for its end');
      await this.pass(wait_ms + SLACK_MS);
      this.renewed_at = this.options.clock.now();
      return join();
    });
    this.joined = joined;
    this.record({ type: 'lease.granted', ...joined });
    log.info({ epoch: joined.epoch }, `joined the fleet as ${node.node_id}`);
    this.renewLater(this.renewEvery);
    return joined;
  }

  /** The kernel is open: the end of the boot before is recorded, if that could not do it. */
  async recordLossBefore(): Promise<void> {
    const { node_id } = this.options.node;
    const boot_id = this.joined?.previous_boot_id ?? null;
    if (boot_id !== null) await this.recordLoss({ node_id, boot_id });
  }

  /** This node has fenced these ones. */
  recordTakeOver(nodes: readonly TakenOver[]): void {
    const { log } = this.options;
    for (const taken of nodes) {
      const { node_id, runs } = taken;
      const unfinishedRuns = `${runs} unfinished run${runs === 1 ? '' : 's'}`;
      log.warn(
        { node_id, runs },
        `the lease of the node ${node_id} has ended, with ${unfinishedRuns}`,
      );
      this.recordLoss(taken).catch((error: unknown) =>
        log.debug({ err: error }, 'the loss of a lease was not recorded'),
      );
    }
  }

  /** Releases the lease and the runs of this node, unless they are lost. */
  async close(): Promise<void> {
    this.closing.abort();
    if (this.joined !== null) await this.options.fleet.leave();
  }

  /** A shorter lease is renewed more often. */
  private get renewEvery(): number {
    const { lease_ms = Number.POSITIVE_INFINITY } = this.joined ?? {};
    return Math.min(this.options.limits.lease_renew_ms, lease_ms / RENEWALS);
  }

  private renewLater(ms: number): void {
    this.options.clock.after(ms, () => void this.renew(), this.closing.signal);
  }

  private get mayBeOver(): boolean {
    const { lease_ms = Number.POSITIVE_INFINITY } = this.joined ?? {};
    return this.options.clock.now() - this.renewed_at >= lease_ms;
  }

  private async renew(): Promise<void> {
    const { clock } = this.options;
    const began = clock.now();
    await this.renewOnce();
    if (this.closing.signal.aborted) return;
    this.renewLater(Math.max(0, began + this.renewEvery - clock.now()));
  }

  private renewOnce(): Promise<void> {
    this.renewing ??= this.ask().finally(() => {
      this.renewing = null;
    });
    return this.renewing;
  }

  private async ask(): Promise<void> {
    const { fleet, clock, load, log, time } = this.options;
    const began = clock.now();
    try {
      const answer = await fleet.renew({ ...load(), clock: time.report });
      if (this.closing.signal.aborted) return;
      if (answer === 'lost') return this.endLost(new SvcError('lease_lost'));
      this.renewed_at = began;
      this.noteRenewal();
      if (answer === 'drain') this.drain();
      await this.followTime();
    } catch (error) {
      if (this.closing.signal.aborted) return;
      if (hasCode(error, 'lease_lost')) return this.endLost(error);
      this.noteFailure(asSvcError(error, 'store_stalled'));
      log.debug({ err: error }, 'a renewal of the lease failed');
    }
  }

  private async followTime(): Promise<void> {
    const { fleet, log, time } = this.options;
    const before = time.trouble;
    await time.follow(fleet);
    const { trouble, report } = time;
    if (trouble !== null && before === null) log.warn({ ...report }, trouble);
    if (trouble === null && before !== null)
      log.info({ ...report }, 'the clock of this machine is right again: this node takes runs');
  }

  private noteRenewal(): void {
    if (this.failing === null) return;
    this.failing = null;
    this.options.log.info({}, 'the lease of this node is renewed again');
    this.record({ type: 'lease.renewed' });
  }

  private noteFailure(error: SvcError): void {
    if (this.failing !== null) return;
    this.failing = error;
    const { code, message } = error;
    this.options.log.warn({ code }, `the lease of this node cannot be renewed: ${message}`);
    this.record({ type: 'lease.renewal_failed', error: { code, message, retryable: true } });
  }

  private endLost(error: SvcError): void {
    this.closing.abort();
    this.options.onLost(error);
  }

  private drain(): void {
    if (this.isDraining) return;
    this.isDraining = true;
    this.options.log.info({}, 'this node is asked to finish its work and stop');
    this.options.onDrain();
  }

  /** Records in the stream of another boot that its lease is lost. */
  private async recordLoss({
    node_id,
    boot_id,
  }: Pick<TakenOver, 'node_id' | 'boot_id'>): Promise<void> {
    const { kernel, node } = this.options;
    const key = stream.lease(node_id, boot_id);
    const snapshot = await kernel.load(key);
    if (snapshot === undefined) return;
    const { epoch } = snapshot.context;
    if (snapshot.status === 'active')
      await kernel.tryAppend(key, { type: 'lease.lost', epoch, by: node.node_id });
    kernel.forget(key);
  }

  /** How the lease ends with the daemon. */
  private makeEndEvents(): NewEvent<LeaseEvent>[] {
    const leftEvent = { type: 'lease.left', forced: false } as const;
    const lease = this.options.kernel.tail(this.key);
    if (lease === undefined || isIn(lease, 'leaving')) return [leftEvent];
    return [
      { type: 'lease.leave_requested', leave_deadline_at: this.options.clock.now() },
      leftEvent,
    ];
  }

  /** The machine refuses what does not fit its state. A failed log is known to the kernel. */
  private record(...events: NewEvent<LeaseEvent>[]): void {
    for (const event of events) this.options.kernel.tryAppend(this.key, event).catch(() => {});
  }

  private pass(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.options.clock.after(ms, resolve);
    return promise;
  }
}

/** Renewals that fit in a lease at least. */
const RENEWALS = 3;

/** A timer may be early by a moment. */
const SLACK_MS = 50;

/** How long another boot still has the lease; null for another error. */
function restOf(error: unknown): number | null {
  if (!hasCode(error, 'daemon_already_running')) return null;
  const ms = error.details?.retry_after_ms;
  return typeof ms === 'number' ? ms : null;
}
