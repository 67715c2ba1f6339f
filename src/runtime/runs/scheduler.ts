import { countsEnds } from '../../../machines/daemon/counts.ts';
import type { RunSnapshot } from '../../../machines/run/chart.ts';
import { nextAttempt } from '../../../machines/run/next.ts';
import { type Concurrency, freePlaces, runsToStart } from '../../../machines/runs-to-start.ts';
import { isIn } from '../../../machines/step.ts';
import { Notifier } from '../../async/notifier.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { type DaemonKey, type RunKey, stream } from '../../kernel/stream.ts';
import type { Log } from '../../ports/log.ts';
import type { LocalRoom } from '../../ports/providers.ts';
import { LOCAL } from '../providers/providers.ts';
import type { OutputBudget } from './output-recorder.ts';
import { Unrecovered } from './unrecovered.ts';
import { WaitingRuns } from './waiting-runs.ts';

/**
 * Starts the waiting runs in their order. It owns the queue and the list of active runs.
 *
 * 1. Both lists follow the proposed states of the run machines. A run that may start at once is
 *    recorded as started in the commit of its acceptance.
 * 2. Runs that were cut off go first. The others are served as in `waiting-runs.ts`: each asker in
 *    its turn, however many runs it has.
 * 3. A run that killed the engine while it ran alone is served in rounds too. The runs that it
 *    interrupted go first.
 * 4. After a restart the queue has the order of acceptance, by the same rounds.
 * 5. Local runs share the memory for models. See `runs-to-start.ts`.
 * 6. Where the queue is shared, a run that does not start at once is given away. See `src/fleet/`.
 * 7. The end of a run settles it, and from then on it takes no place. Where its event does not say
 *    so, as in `machines/daemon/counts.ts`, the daemon machine gets `daemon.run_settled`. The run
 *    leaves the list when its end is durable.
 */
export class Scheduler {
  /** Runs that count as queued. Nothing starts before the kernel has them. */
  readonly unrecovered = new Unrecovered();
  private readonly queue = new WaitingRuns<Waiting>();
  private readonly active = new ActiveRuns();
  /** Runs whose tools work, or that wait for a person. */
  private readonly parked = new Map<RunKey, Demand>();
  /** Runs that wait for a person, and are settled for this boot because it stops. */
  private readonly handedOver = new Set<RunKey>();
  private stopLooking: () => void = () => {};
  private readonly options: SchedulerOptions;
  private readonly positionChanges = new Notifier();
  private concurrency: Concurrency;
  private othersWait: ((provider: string) => boolean) | null = null;

  constructor(options: SchedulerOptions) {
    this.options = options;
    this.concurrency = options.concurrency;
    options.outputs.onRoom(() => this.next());
    const { room } = options;
    if (room !== undefined) {
      room.queued = () => new Set(this.queue.list.filter(isLocal).map(({ model }) => model));
      room.onChange(() => this.next());
    }
    const { kernel } = options;
    kernel.onProposed('run', ({ type, stream }, tail) => {
      if (type !== 'run.output_appended') this.follow(stream, tail);
    });
    kernel.onProposed('daemon', ({ type }) => {
      if (type === 'daemon.stop_requested') this.handOverPaused();
      if (ALLOWS_STARTS.has(type)) this.next();
    });
    kernel.subscribe({ machine: 'run' }, ({ stream }, { status }) => {
      if (status !== 'active') this.forget(stream);
    });
  }

  /**
   * Runs of other daemons wait for the places of this daemon too, in a fair order. While they do at
   * a provider, no newcomer starts there, and no place is kept for the home.
   */
  shareQueue(othersWait: (provider: string) => boolean): void {
    this.othersWait = othersWait;
    this.concurrency = { ...this.concurrency, kept: 0 };
  }

  get queued(): number {
    return this.queue.size + this.unrecovered.size;
  }

  get running(): number {
    return this.active.size;
  }

  /** Runs whose end is not proposed. */
  get unsettled(): number {
    return this.queued + this.active.taken().length + this.parked.size;
  }

  /** The same for the token with this name, or for all tokens. */
  unsettledOf(name?: string): number {
    const isOf = ({ asker }: Demand) => asker !== null && asker === (name ?? asker);
    const all = [...this.queue.list, ...this.active.taken(), ...this.parked.values()];
    return all.filter(isOf).length;
  }

  activeRuns(): RunKey[] {
    return this.active.keys();
  }

  /** Waiting, in the order in which they are served. */
  waitingRuns(): RunKey[] {
    return this.queue.list.map(({ run_id }) => run_id);
  }

  /** 1 is the next to start; null when the run does not wait. */
  position(run_id: string): number | null {
    return this.queue.position(run_id);
  }

  /**
   * Calls with the position of a run, now and at each change, until the signal aborts. The last
   * call has null: the run has left the queue.
   */
  watch(run_id: string, listener: (position: number | null) => void, signal: AbortSignal): void {
    let last: number | null | undefined;
    let end = () => {};
    const update = () => {
      const position = this.position(run_id);
      if (position === last) return;
      last = position;
      if (position === null) end();
      listener(position);
    };
    update();
    if (last !== null) end = this.positionChanges.subscribe(update, signal);
  }

  /** Starts the runs that may start now. */
  next(): void {
    const { kernel, daemon, outputs, room } = this.options;
    if (this.unrecovered.size > 0 || this.queue.size === 0 || !outputs.hasRoom) return;
    const snapshot = kernel.tail(daemon);
    if (snapshot === undefined || !(snapshot.hasTag('ready') || isIn(snapshot, 'draining'))) return;
    const now = kernel.clock.now();
    const limits = room === undefined ? this.concurrency : { ...this.concurrency, room };
    if (room !== undefined)
      for (const run of this.queue.list) if (isLocal(run)) room.learn(run.model);
    const started = new Set(
      runsToStart(this.startable(), this.active.taken(), limits, now).filter((run_id) =>
        this.start(stream.run(run_id)),
      ),
    );
    this.lookAgain(now);
    if (started.size === 0) return;
    this.queue.serve(started);
    this.positionChanges.notify();
  }

  /** The places at a provider that are free now. */
  freePlaces(provider: string): number {
    return freePlaces([...this.queue.list, ...this.active.taken()], this.concurrency, provider);
  }

  /** Queues a run that waited with no daemon. The kernel has its state. */
  adopt(run_id: RunKey): void {
    const tail = this.options.kernel.tail(run_id);
    if (tail === undefined || !tail.hasTag('waiting') || this.position(run_id) !== null) return;
    this.enqueue(run_id, tail, true);
    this.next();
  }

  /** Gives up a queued run. False if it is not in the queue, or an event of it is not durable. */
  release(run_id: RunKey): boolean {
    const { kernel, daemon } = this.options;
    const instance = kernel.instance(run_id);
    const isDurable = instance !== undefined && instance.version === instance.tailVersion;
    if (!isDurable || !instance.tail.hasTag('queued') || this.position(run_id) === null)
      return false;
    this.leaveQueue(run_id);
    kernel.forget(run_id);
    this.logFailure(kernel.tryAppend(daemon, { type: 'daemon.run_settled', run_id }), run_id);
    return true;
  }

  private startable(): readonly Waiting[] {
    const { othersWait } = this;
    if (othersWait === null) return this.queue.list;
    const isNew = (run: Waiting) => !run.adopted && !this.queue.isFirst(run);
    return this.queue.list.filter((run) => !isNew(run) || !othersWait(run.provider));
  }

  /** The cool-down of a model ends without an event, so a timer wakes the scheduler. */
  private lookAgain(now: number): void {
    const { room, kernel } = this.options;
    const at = this.queue.list.some(isLocal) ? (room?.restEnds(now) ?? null) : null;
    this.stopLooking();
    this.stopLooking = at === null ? () => {} : kernel.clock.after(at - now, () => this.next());
  }

  private start(run_id: RunKey): boolean {
    const { kernel } = this.options;
    const tail = kernel.tail(run_id);
    if (tail === undefined || !tail.hasTag('waiting')) return false;
    this.active.set({ run_id, ...demandOf(tail) });
    this.logFailure(kernel.tryAppend(run_id, nextAttempt(tail)), run_id);
    return true;
  }

  private follow(run_id: RunKey, tail: RunSnapshot): void {
    if (tail.status !== 'active') this.settle(run_id, tail);
    else if (tail.hasTag('calling') || tail.hasTag('paused')) this.park(run_id, tail);
    else if (tail.hasTag('waiting')) this.wait(run_id, tail);
    else if (!this.active.has(run_id)) {
      this.leaveQueue(run_id);
      this.parked.delete(run_id);
      this.active.set({ run_id, ...demandOf(tail), unstarted: true });
    } else return;
    this.next();
  }

  private wait(run_id: RunKey, tail: RunSnapshot): void {
    if (this.position(run_id) !== null) return;
    this.active.delete(run_id);
    this.parked.delete(run_id);
    this.enqueue(run_id, tail);
  }

  /** A run whose tools work, or that waits for a person, takes no place. */
  private park(run_id: RunKey, tail: RunSnapshot): void {
    this.active.delete(run_id);
    this.leaveQueue(run_id);
    this.parked.set(run_id, demandOf(tail));
    if (this.options.kernel.tail(this.options.daemon)?.hasTag('stopping')) this.handOverPaused();
  }

  /** A stop does not wait for persons: the next start restores these waits. */
  private handOverPaused(): void {
    const { kernel } = this.options;
    for (const run_id of this.parked.keys())
      if (kernel.tail(run_id)?.hasTag('paused') === true) this.settleOnce(run_id);
  }

  private enqueue(run_id: RunKey, snapshot: RunSnapshot, adopted = false): void {
    const { client, deaths } = snapshot.context;
    const demand = { ...demandOf(snapshot), client };
    const killedEngine = demand.isolated && deaths > 0;
    const isFair = snapshot.hasTag('queued') || killedEngine;
    this.queue.add({ run_id, ...demand, adopted }, isFair ? 'fair' : 'first');
    if (this.unrecovered.has(run_id)) this.unrecovered.delete([run_id]);
    this.positionChanges.notify();
  }

  private leaveQueue(run_id: RunKey): void {
    if (this.queue.remove(run_id)) this.positionChanges.notify();
  }

  private settle(run_id: RunKey, tail: RunSnapshot): void {
    this.leaveQueue(run_id);
    this.parked.delete(run_id);
    this.active.set({ run_id, ...demandOf(tail), ended: true });
    if (!this.isSettledByEnd(run_id)) this.settleOnce(run_id);
  }

  private isSettledByEnd(run_id: RunKey): boolean {
    const { kernel, daemon } = this.options;
    const accepted_by = kernel.instance(run_id)?.boot_id ?? '';
    const state = kernel.tail(daemon);
    return stream.daemon(accepted_by) === daemon && state !== undefined && countsEnds(state);
  }

  private settleOnce(run_id: RunKey): void {
    const { kernel, daemon } = this.options;
    if (this.handedOver.has(run_id)) return;
    if (kernel.tail(run_id)?.status === 'active') this.handedOver.add(run_id);
    this.logFailure(kernel.tryAppend(daemon, { type: 'daemon.run_settled', run_id }), run_id);
  }

  private forget(run_id: RunKey): void {
    this.active.delete(run_id);
    this.options.kernel.forget(run_id);
  }

  private logFailure(recorded: Promise<unknown>, run_id: string): void {
    recorded.catch((error: unknown) =>
      this.options.log.error({ err: error, run_id }, 'an event of the queue could not be recorded'),
    );
  }
}

export interface SchedulerOptions {
  kernel: Kernel;
  /** Stream of this boot's daemon machine. */
  daemon: DaemonKey;
  concurrency: Concurrency;
  /** The memory for local models. Absent: there is room for one. */
  room?: LocalRoom;
  /** Nothing starts while the answers in progress fill their budget. */
  outputs: OutputBudget;
  log: Log;
}

/** Events of the daemon after which runs may start that could not before. */
const ALLOWS_STARTS: ReadonlySet<string> = new Set([
  'daemon.store_freed',
  'daemon.disk_resumed',
  'daemon.stop_requested',
]);

/** One death may be chance, and so may two. */
const SUSPECT_BOOTS = 3;

function demandOf({ context }: RunSnapshot): Demand {
  const { provider, model } = context.request;
  const { isolated, boots, asked_by: asker } = context;
  return {
    provider,
    model,
    isolated,
    suspect: provider !== LOCAL && boots >= SUSPECT_BOOTS,
    asker,
  };
}

interface Waiting extends Demand {
  run_id: RunKey;
  client: string;
  /** The run has waited already, with no daemon. */
  adopted: boolean;
}

function isLocal({ provider }: Waiting): boolean {
  return provider === LOCAL;
}

/** The requirements of a run to start. */
interface Demand {
  provider: string;
  model: string;
  isolated: boolean;
  suspect: boolean;
  /** Name of the token that started it. Null: the home did. */
  asker: string | null;
}

interface ActiveRun extends Demand {
  run_id: RunKey;
  /** The run ends without having started, such as by a cancel. */
  unstarted?: boolean;
  /** Its end is proposed. */
  ended?: boolean;
}

/**
 * The active runs, in the order in which they became active. Each start reads all of them, so it is
 * a list. To list the values of an object takes far longer than to search a list.
 */
class ActiveRuns {
  private readonly runs: ActiveRun[] = [];

  get size(): number {
    return this.runs.length;
  }

  has(run_id: RunKey): boolean {
    return this.placeOf(run_id) >= 0;
  }

  /** Adds the run, or changes what is known of it. */
  set(run: ActiveRun): void {
    const place = this.placeOf(run.run_id);
    if (place < 0) this.runs.push(run);
    else this.runs[place] = run;
  }

  delete(run_id: RunKey): void {
    const place = this.placeOf(run_id);
    if (place >= 0) this.runs.splice(place, 1);
  }

  keys(): RunKey[] {
    return this.runs.map(({ run_id }) => run_id);
  }

  /** Runs that take a place. */
  taken(): ActiveRun[] {
    return this.runs.filter(({ ended }) => ended !== true);
  }

  private placeOf(run_id: RunKey): number {
    return this.runs.findIndex((run) => run.run_id === run_id);
  }
}
