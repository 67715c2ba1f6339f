import type { NewEvent } from '../../machines/events.ts';
import { deadlinesOf } from '../../machines/machine.ts';
import type { RunSnapshot } from '../../machines/run/chart.ts';
import type { RunEvent } from '../../machines/run/context.ts';
import { afterCrash, fileToResume } from '../../machines/run/next.ts';
import { createGate } from '../async/gate.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { EventStore } from '../kernel/store/port.ts';
import { type DaemonKey, type RunKey, stream } from '../kernel/stream.ts';
import type { Log } from '../ports/log.ts';
import { LOCAL } from '../runtime/providers/providers.ts';
import type { Scheduler } from '../runtime/runs/scheduler.ts';
import type { MissingFile, ModelFiles } from './model-files.ts';
import type { ClaimedRun, Fleet } from './port.ts';

export interface ClaimsOptions {
  fleet: Pick<Fleet, 'claim' | 'claimRun' | 'release' | 'keepFor'>;
  store: Pick<EventStore, 'unfinishedRuns'>;
  kernel: Kernel;
  scheduler: Scheduler;
  /** Stream of this boot's daemon machine. */
  daemon: DaemonKey;
  files: Pick<ModelFiles, 'here' | 'unlisted' | 'findMissing'>;
  /** For so long, a run waits for a node with its model file. */
  keep_ms: number;
  /** The providers that this node can call now: each with all its models, or with these. */
  providers(): readonly Offer[];
  log: Log;
  /** Runs that were cut off on another node are here. */
  onCutOff(): void;
  /** A run is here, and waits. */
  onWaiting(run_id: RunKey): void;
  /** Whether the release of this run is not recorded yet. */
  isReleasing(run_id: RunKey): boolean;
}

export interface Offer {
  provider: string;
  /** Null: each model. */
  models: readonly string[] | null;
}

/**
 * Takes runs that wait on no node, while this node has a free place for them. It owns the list of
 * providers at which some may wait.
 *
 * 1. A node asks for as many runs of a provider as it has free places there.
 * 2. An answer with fewer says that no more wait. Until then no newcomer starts before them.
 * 3. A run that waited needs no event to wait here. A run that was cut off resumes or ends, as its
 *    recovery policy says.
 * 4. A provider whose run could not start here rests until a place is free, or until the next poll.
 * 5. A claim whose answer is lost may have given runs to this node. The next look finds them.
 * 6. A run whose model file is not here is released, and kept for a node that has it.
 * 7. The daemon machine counts each of them from then on, as if it was accepted here.
 */
export class Claims {
  private readonly options: ClaimsOptions;
  /** Providers at which runs may wait. */
  private readonly expected = new Set<string>();
  private readonly resting = new Set<string>();
  /** One claim at a time: the next one finds each run of this node in its kernel. */
  private readonly gate = createGate(1);
  private isUnsure = false;
  private isOpen = false;
  private isLooking = false;
  private looksAgain = false;

  constructor(options: ClaimsOptions) {
    this.options = options;
  }

  start(): void {
    this.isOpen = true;
    this.expect();
  }

  close(): void {
    this.isOpen = false;
  }

  hasOthersWaiting(provider: string): boolean {
    return this.expected.has(provider);
  }

  /** Runs may wait: looks for them where there are free places. */
  expect(): void {
    if (!this.isOpen) return;
    for (const { provider } of this.options.providers()) this.expected.add(provider);
    this.look();
  }

  /** A place is free, or may be. */
  lookAgain(): void {
    this.resting.clear();
    this.look();
  }

  private look(): void {
    if (!this.isOpen || (this.expected.size === 0 && !this.isUnsure)) return;
    this.looksAgain = this.isLooking;
    if (this.isLooking) return;
    this.isLooking = true;
    this.gate(() => this.lookEverywhere())
      .catch((error: unknown) => this.options.log.warn({ err: error }, 'no runs could be taken'))
      .finally(() => {
        this.isLooking = false;
        if (this.looksAgain) this.look();
      });
  }

  /** Takes one run that waits on no node, and ends it. False if a node has it. */
  async takeOne(run_id: string, end: End): Promise<boolean> {
    return this.gate(async () => {
      if (!this.canAdmit(run_id)) return false;
      const claimed = await this.noteLostAnswer(this.options.fleet.claimRun(run_id));
      if (claimed !== null) await this.adoptAll([claimed], end);
      return claimed !== null;
    });
  }

  private async lookEverywhere(): Promise<void> {
    const { providers, scheduler } = this.options;
    if (this.isUnsure && this.canAdmit('run_any')) await this.findLost();
    const offers = providers();
    for (const provider of [...this.expected])
      if (!offers.some((offer) => offer.provider === provider)) this.expected.delete(provider);
    for (const offer of offers) {
      const { provider } = offer;
      const limit = scheduler.freePlaces(provider);
      if (!this.mayWait(provider) || limit === 0 || !this.canAdmit('run_any')) continue;
      this.expected.delete(provider);
      const taken = await this.take(offer, limit).catch((error: unknown) => {
        this.expected.add(provider);
        throw error;
      });
      if (taken < limit) continue;
      this.expected.add(provider);
      this.looksAgain ||= this.mayWait(provider) && scheduler.freePlaces(provider) > 0;
    }
    // A newcomer that this node keeps may start now.
    scheduler.next();
  }

  private mayWait(provider: string): boolean {
    return this.expected.has(provider) && !this.resting.has(provider);
  }

  private async take({ provider, models }: Offer, limit: number): Promise<number> {
    const unlisted = this.options.files.unlisted.filter((one) => one.provider === provider);
    const named = [...(models ?? []), ...unlisted.map(({ model }) => model)].map(
      (model) => `${provider}/${model}`,
    );
    const claimed = await this.noteLostAnswer(
      this.options.fleet.claim({
        providers: models === null ? [provider] : [],
        models: named,
        limit,
        files: this.options.files.here,
      }),
    );
    await this.adoptAll(claimed, null);
    return claimed.length;
  }

  /** Notes that an answer was lost. */
  private async noteLostAnswer<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      this.isUnsure = true;
      throw error;
    }
  }

  /** Takes the runs of this node that are in no kernel. */
  private async findLost(): Promise<void> {
    const { store, kernel, isReleasing } = this.options;
    const lost = (await store.unfinishedRuns())
      .map(stream.run)
      .filter((run_id) => kernel.instance(run_id) === undefined && !isReleasing(run_id));
    this.isUnsure = false;
    await this.adoptAll(
      lost.map((run_id) => ({ run_id, ...LOST })),
      null,
    );
  }

  /** Whether this node may have one more run. */
  private canAdmit(run_id: string): boolean {
    const { kernel, daemon } = this.options;
    return (
      !kernel.closed &&
      kernel.stalled === null &&
      kernel.accepts(daemon, { type: 'daemon.run_admitted', run_id })
    );
  }

  private async adoptAll(claimed: readonly ClaimedRun[], end: End | null): Promise<void> {
    const { kernel, onCutOff } = this.options;
    // All reads come first. A read after an append would wait for its commit.
    await Promise.all(claimed.map(({ run_id, events }) => kernel.load(stream.run(run_id), events)));
    const missing = end === null ? await this.options.files.findMissing(claimed) : [];
    // A client may have cancelled a run since it was loaded.
    const kept = missing.filter(({ run_id, file }) => {
      const instance = kernel.instance(run_id);
      return instance?.version === instance?.tailVersion && fileToResume(instance?.tail) === file;
    });
    for (const { run_id } of kept) kernel.forget(run_id);
    const gone = new Set<string>(kept.map(({ run_id }) => run_id));
    for (const run of claimed) if (!gone.has(run.run_id)) this.adopt(run, end);
    if (claimed.some(({ waits }) => !waits)) onCutOff();
    for (const one of kept) await this.keepFor(one);
  }

  private adopt({ run_id: id, waits, downtime_ms }: ClaimedRun, end: End | null): void {
    const { kernel, scheduler, daemon, log, onWaiting } = this.options;
    const run_id = stream.run(id);
    const snapshot = kernel.snapshot(run_id);
    if (snapshot === undefined || snapshot.status !== 'active') {
      kernel.forget(run_id);
      return;
    }
    if (!this.canAdmit(run_id)) {
      this.giveBack(run_id);
      return;
    }
    const by = end === null || typeof end === 'string' ? null : end.by;
    const cancel = { type: 'run.cancel_requested', by: by ?? '' } as const;
    // The clock of the database counts, and this one may be behind.
    const now = end === 'due' ? Number.POSITIVE_INFINITY : kernel.clock.now();
    const event: NewEvent<RunEvent> | null =
      by !== null && kernel.accepts(run_id, cancel)
        ? cancel
        : waits && snapshot.hasTag('queued')
          ? passedDeadline(snapshot, now)
          : ((end === 'left' ? interruptedEventOf(snapshot) : null) ??
            afterCrash(snapshot, downtime_ms));
    const admitted = { stream: daemon, event: { type: 'daemon.run_admitted', run_id } } as const;
    const proposed = kernel.append(
      event === null ? [admitted] : [admitted, { stream: run_id, event }],
    );
    proposed.catch((error: unknown) =>
      log.error({ err: error, run_id }, 'a run of another node could not be taken'),
    );
    if (event !== null) return;
    scheduler.adopt(run_id);
    if (scheduler.position(run_id) === null) return;
    this.resting.add(snapshot.context.request.provider);
    onWaiting(run_id);
  }

  private async keepFor({ run_id, file }: MissingFile): Promise<void> {
    const { fleet, log, keep_ms } = this.options;
    log.info({ run_id, file }, 'the model file of a run is not here: it waits for a node with it');
    await fleet.keepFor(run_id, file, keep_ms).catch((error: unknown) => {
      this.isUnsure = true;
      log.warn({ err: error, run_id }, 'a run is not released yet');
    });
  }

  /** This node stops, or its disk does not answer. A run that was cut off goes when it leaves. */
  private giveBack(run_id: RunKey): void {
    const { kernel, fleet, log } = this.options;
    kernel.forget(run_id);
    this.isUnsure = true;
    fleet
      .release([run_id])
      .catch((error: unknown) => log.warn({ err: error, run_id }, 'a run is not released yet'));
  }
}

/** A run of this node that is not in its kernel. */
const LOST: Omit<ClaimedRun, 'run_id'> = { waits: true, kept: false, downtime_ms: 0, events: null };

/** Who cancels a run, that its deadline has come, or that no node resumed it. */
type End = { by: string } | 'due' | 'left';

/** The end of a run that a suitable node could resume. Null: it ends in another way. */
function interruptedEventOf(snapshot: RunSnapshot): NewEvent<RunEvent> | null {
  if (afterCrash(snapshot, 0)?.type !== 'run.recovered') return null;
  const message = `Its node stopped, and no node with ${needOf(snapshot)} resumed it in time.`;
  return { type: 'run.interrupted', error: { code: 'run_interrupted', message, retryable: true } };
}

/** The model that a node needs to resume a run. */
export function needOf({ context: { request } }: RunSnapshot): string {
  const { provider, model } = request;
  return provider === LOCAL ? `the model ${model}` : `the provider ${provider}`;
}

/** The event of the first deadline that has come while no node had the run. */
function passedDeadline(snapshot: RunSnapshot, now: number): NewEvent<RunEvent> | null {
  const [first] = deadlinesOf(snapshot).sort((a, b) => a.at - b.at);
  return first !== undefined && first.at <= now ? (first.event as NewEvent<RunEvent>) : null;
}
