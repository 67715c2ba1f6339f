import { arrive, emptyQueue, type FairQueue, leave, serve } from '../../../machines/fair-queue.ts';
import type { RunSnapshot } from '../../../machines/run.ts';
import { nextAttempt } from '../../../machines/run-next.ts';
import { type Concurrency, runsToStart } from '../../../machines/scheduler.ts';
import { isIn, statePath } from '../../../machines/step.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { Notifier } from '../../kernel/notifier.ts';
import type { Log } from '../../kernel/port.ts';
import { type DaemonKey, type RunKey, stream } from '../../kernel/stream.ts';
import type { OutputBudget } from './output-budget.ts';

/**
 * Who waits and who is being answered.
 *
 * 1. Both lists follow the run machines; nothing is in them that is not unsettled.
 * 2. Runs that were cut off go first; the rest is fair by client, so that no client delays another with a long backlog. One
 *    that killed the engine alone waits by turns too: those that it cut off go first.
 * 3. After a restart the order of the queue is the order of acceptance, by the same turns.
 * 4. A settled run is told to the daemon machine, once.
 */
export class Scheduler {
  /** In the order in which they are served. */
  private queue: Waiting[] = [];
  private readonly active = new Map<RunKey, Asked>();
  /** By provider: how far one has come says nothing about another. */
  private readonly turns = new Map<string, FairQueue>();
  private arrivals = 0;
  private readonly options: SchedulerOptions;
  private readonly moves = new Notifier();

  constructor(options: SchedulerOptions) {
    this.options = options;
    options.outputs.onRoom(() => this.next());
    options.kernel.subscribe({ machine: 'run' }, (event, snapshot) => {
      if (event.type !== 'run.output_appended') this.follow(event.stream, snapshot);
    });
    options.kernel.subscribe({ stream: options.daemon }, ({ type }) => {
      if (type === 'daemon.store_freed' || type === 'daemon.stop_requested') this.next();
    });
  }

  get queued(): number {
    return this.queue.length;
  }

  get running(): number {
    return this.active.size;
  }

  activeRuns(): RunKey[] {
    return [...this.active.keys()];
  }

  /** Waiting, in the order in which they are served. */
  waitingRuns(): RunKey[] {
    return this.queue.map(({ run_id }) => run_id);
  }

  /** 1 is the next to start; null when the run does not wait. */
  position(run_id: string): number | null {
    const index = this.queue.findIndex((waiting) => waiting.run_id === run_id);
    return index < 0 ? null : index + 1;
  }

  /** Calls when a position in the queue has changed, until the signal aborts. */
  onMove(listener: () => void, signal: AbortSignal): void {
    this.moves.subscribe(listener, signal);
  }

  /** Takes up a run that an earlier life of the daemon left: in the queue, or being ended. */
  adopt(run_id: RunKey, snapshot: RunSnapshot): void {
    if (snapshot.hasTag('waiting')) this.enqueue(run_id, snapshot);
    else this.active.set(run_id, asked(snapshot));
  }

  /** Starts what may start now. */
  next(): void {
    const { kernel, daemon, places, outputs } = this.options;
    if (!outputs.hasRoom) return;
    const snapshot = kernel.tail(daemon);
    if (snapshot === undefined || !(snapshot.hasTag('ready') || isIn(snapshot, 'draining'))) return;
    const started = new Set(
      runsToStart(this.queue, [...this.active.values()], places).filter((run_id) =>
        this.start(stream.run(run_id)),
      ),
    );
    if (started.size === 0) return;
    for (const { run_id, provider, at } of this.queue)
      if (started.has(run_id)) this.turns.set(provider, serve(this.turnsOf(provider), at));
    this.queue = this.queue.filter(({ run_id }) => !started.has(run_id));
    this.moves.notify();
  }

  private start(run_id: RunKey): boolean {
    const { kernel } = this.options;
    const tail = kernel.tail(run_id);
    if (tail === undefined || !tail.hasTag('waiting')) return false;
    this.active.set(run_id, asked(tail));
    this.report(kernel.tryAppend(run_id, nextAttempt(tail)), run_id);
    return true;
  }

  private follow(run_id: RunKey, snapshot: RunSnapshot): void {
    if (snapshot.status !== 'active') this.settle(run_id);
    else if (snapshot.hasTag('waiting')) this.wait(run_id, snapshot);
    else if (!this.active.has(run_id)) {
      this.leaveQueue(run_id);
      this.active.set(run_id, asked(snapshot));
    }
    this.next();
  }

  /** A run whose next attempt is on its way to the log already waits no more. */
  private wait(run_id: RunKey, snapshot: RunSnapshot): void {
    const tail = this.options.kernel.tail(run_id);
    if (
      tail === undefined ||
      statePath(tail) !== statePath(snapshot) ||
      this.position(run_id) !== null
    )
      return;
    this.active.delete(run_id);
    this.enqueue(run_id, snapshot);
  }

  private enqueue(run_id: RunKey, snapshot: RunSnapshot): void {
    const { client, deaths } = snapshot.context;
    const { provider, model, isolated } = asked(snapshot);
    const killer = isolated && deaths > 0;
    const at = isIn(snapshot, 'queued') || killer ? this.arrive(provider, client) : BEFORE_ALL;
    this.arrivals += 1;
    let index = this.queue.length;
    while (index > 0 && (this.queue[index - 1]?.at ?? BEFORE_ALL) > at) index -= 1;
    this.queue.splice(index, 0, {
      run_id,
      provider,
      model,
      isolated,
      client,
      at,
      came: this.arrivals,
    });
    this.moves.notify();
  }

  /** The round of a run that has just come. Where nobody waits, the rounds go on from those of the other providers. */
  private arrive(provider: string, client: string): number {
    const { round, next } = this.turnsOf(provider);
    const isIdle = !this.queue.some((other) => other.provider === provider);
    const furthest = isIdle
      ? Math.max(round, ...[...this.turns.values()].map((turns) => turns.round))
      : round;
    const { queue, at } = arrive({ round: furthest, next }, client);
    this.turns.set(provider, queue);
    return at;
  }

  private turnsOf(provider: string): FairQueue {
    return this.turns.get(provider) ?? emptyQueue;
  }

  private leaveQueue(run_id: RunKey): void {
    const left = this.queue.find((waiting) => waiting.run_id === run_id);
    if (left === undefined) return;
    const { provider, client, at } = left;
    this.queue = this.queue.filter((waiting) => waiting !== left);
    if (at !== BEFORE_ALL) {
      this.turns.set(provider, leave(this.turnsOf(provider), client));
      for (const behind of this.queue)
        if (behind.provider === provider && behind.client === client && behind.at > at)
          behind.at -= 1;
      this.queue.sort((a, b) => a.at - b.at || a.came - b.came);
    }
    this.moves.notify();
  }

  private settle(run_id: RunKey): void {
    const { kernel, daemon } = this.options;
    this.active.delete(run_id);
    this.leaveQueue(run_id);
    kernel.forget(run_id);
    this.report(kernel.tryAppend(daemon, { type: 'daemon.run_settled', run_id }), run_id);
  }

  private report(recorded: Promise<unknown>, run_id: string): void {
    recorded.catch((error: unknown) =>
      this.options.log.error({ err: error, run_id }, 'a fact of the queue could not be recorded'),
    );
  }
}

export interface SchedulerOptions {
  kernel: Kernel;
  /** Stream of this boot's daemon machine. */
  daemon: DaemonKey;
  places: Concurrency;
  /** Nothing starts while the answers in progress fill their budget. */
  outputs: OutputBudget;
  log: Log;
}

interface Asked {
  provider: string;
  model: string;
  isolated: boolean;
}

function asked({ context }: RunSnapshot): Asked {
  const { provider, model } = context.request;
  return { provider, model, isolated: context.isolated };
}

interface Waiting extends Asked {
  run_id: RunKey;
  client: string;
  /** Its round. */
  at: number;
  /** How many came before it. */
  came: number;
}

/** The round of a run that was cut off. */
const BEFORE_ALL = -1;
