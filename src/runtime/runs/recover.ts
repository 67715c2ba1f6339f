import type { DaemonCreated, DaemonEvent, LastBoot } from '../../../machines/daemon/context.ts';
import { endingOf } from '../../../machines/daemon/context.ts';
import { afterCrash } from '../../../machines/run/next.ts';
import { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { type EventStore, type StoredEvent, toEvent } from '../../kernel/store/port.ts';
import { isDaemon, type RunKey, stream } from '../../kernel/stream.ts';
import type { Scheduler } from './scheduler.ts';

export interface RecoveryProgress {
  /** Runs of one step. */
  step_runs: number;
  /** Hears of each run whose events cannot be folded. It stays in the log as it is. */
  unreadable?(run_id: RunKey, error: unknown): void;
  /** Called between steps with the number of runs so far. Its error ends the recovery. */
  made(runs: number): Promise<void>;
  /**
   * Takes the function that recovers the rest of the queue once the daemon is ready, if one step
   * does not suffice. Absent: the queue is recovered at once.
   */
  later?(rest: () => Promise<void>): void;
}

const IN_ONE_STEP: RecoveryProgress = {
  step_runs: Number.MAX_SAFE_INTEGER,
  made: () => Promise.resolve(),
};

/**
 * How the last boot ended, by the log up to `last_seq`. It reads only the first and the last event
 * of the boot's stream, and where its last runs began and ended. In a fleet, the unfinished runs
 * are those that this node still has. `rejoins`: the boot was one of this process.
 */
export async function readLastBoot(
  store: EventStore,
  boot_id: string | null,
  host_boot_id: string | null,
  { rejoins = false, last_seq = 0 } = {},
): Promise<LastBoot | null> {
  if (boot_id === null) return null;
  const daemon = stream.daemon(boot_id);
  const [first] = await store.readStream(daemon, 1, 1);
  const last = await store.lastEvent(daemon);
  if (first === undefined || last === null) return null;
  const ending = endingOf(
    toEvent(first) as DaemonCreated,
    last.type as DaemonEvent['type'],
    host_boot_id,
    rejoins,
  );
  const bounds = await store.runBounds(boot_id, last_seq - LAST_EVENTS, last_seq);
  const { length } = await store.unfinishedRuns();
  return {
    boot_id,
    ending,
    at: Math.max(last.at, bounds.at(-1)?.at ?? 0),
    unfinished_runs: length,
  };
}

/** Of the end of the log. */
const LAST_EVENTS = 10_000;

/**
 * Recovers the unfinished runs of earlier boots. Its cost depends on their number, not on the log.
 *
 * 1. A run that waited waits again, in the same order. A run that was cut off continues or ends, as
 *    its recovery policy says.
 * 2. Each step is durable before the next begins, so a start that is cut off still makes progress.
 * 3. The start does not wait for a long queue: the function for `later` recovers it.
 * 4. Deadlines move by the downtime: the time from the end of the boot of the run's last event. The
 *    clock may have been set since. A boot that did not recover the run is part of the downtime.
 */
export async function recoverRuns(
  kernel: Kernel,
  store: EventStore,
  scheduler: Scheduler,
  progress: RecoveryProgress = IN_ONE_STEP,
): Promise<{ queued: number; suspended: number; ended: number }> {
  const bootEnd = bootEnds(kernel, store);
  let [cut, ended] = [0, 0];
  const unfinished = (await store.unfinishedRuns()).map(stream.run);
  const recoverRun = async (run_id: RunKey, downtime_ms: number): Promise<void> => {
    // A client may have cancelled the run since it was loaded.
    const snapshot = kernel.tail(run_id);
    const event = snapshot === undefined ? null : afterCrash(snapshot, downtime_ms);
    if (snapshot === undefined || event === null) return;
    await kernel.tryAppend(run_id, event);
    if (event.type !== 'run.recovered') ended += 1;
    else if (!snapshot.hasTag('queued')) cut += 1;
  };
  const recoverStep = async (step: readonly RunKey[]) => {
    const recorded: Promise<void>[] = [];
    /** One run that cannot be folded must not end each start. */
    const skipUnreadable = (run_id: RunKey) => (error: unknown) => {
      // The log itself is damaged, newer than this program, or away.
      if (error instanceof SvcError || progress.unreadable === undefined) throw error;
      kernel.forget(run_id);
      progress.unreadable(run_id, error);
    };
    // All reads come first. A read after an append would wait for its commit. They are sent
    // together, so the thread of the log reads a run while this one folds another.
    await Promise.all(step.map((run_id) => kernel.load(run_id).catch(skipUnreadable(run_id))));
    for (const run_id of step) {
      const last = kernel.instance(run_id)?.recent.at(-1);
      const downtime_ms = last === undefined ? 0 : kernel.clock.now() - (await bootEnd(last));
      const done = recoverRun(run_id, downtime_ms).catch(skipUnreadable(run_id));
      // The end of the step awaits it. It may fail earlier.
      done.catch(() => {});
      recorded.push(done);
    }
    await Promise.all(recorded);
  };
  const { step_runs, later } = progress;
  const { unrecovered } = scheduler;
  const recoverAll = async (runs: readonly RunKey[], most: number) => {
    for (let done = 0; done < runs.length; ) {
      const step = runs.slice(done, done + most);
      await recoverStep(step);
      unrecovered.delete(step);
      done += step.length;
      if (done < runs.length) await progress.made(done);
    }
  };
  if (later !== undefined && unfinished.length > step_runs)
    unrecovered.add(await store.unfinishedRuns('queued'));
  const queued = unfinished.filter((run_id) => unrecovered.has(run_id));
  await recoverAll(
    unfinished.filter((run_id) => !unrecovered.has(run_id)),
    step_runs,
  );
  if (queued.length > 0)
    later?.(async () => {
      try {
        await recoverAll(queued, Math.min(step_runs, LATER_RUNS));
      } finally {
        unrecovered.clear();
        scheduler.next();
      }
    });
  // Some runs may have passed their deadline by now. Runs that are being stopped settle later.
  const { unsettled } = scheduler;
  const suspended = Math.min(cut, unsettled);
  return { queued: unsettled - suspended, suspended, ended };
}

/**
 * Moves the deadlines of runs that wait, also in the log, when the clock jumps. The kernel moves
 * those of the others in memory. After sleep a run that works resumes or fails soon, but an
 * approval may wait over many nights and restarts.
 */
export function moveWaitingRuns(kernel: Kernel): void {
  kernel.jumps.subscribe((downtime_ms) =>
    queueMicrotask(() => {
      for (const { stream: of, tail } of kernel.instances.values()) {
        if (!tail.hasTag('paused') && !tail.hasTag('waiting')) continue;
        // Without a log the daemon ends, and the next one finds the run.
        kernel.tryAppend(of as RunKey, { type: 'run.recovered', downtime_ms }).catch(() => {});
      }
    }),
  );
}

/** For an event, the time of the last event of its boot, by the clock of that boot. */
function bootEnds(kernel: Kernel, store: EventStore): (event: StoredEvent) => Promise<number> {
  const known = new Map<string, number>();
  return async ({ boot_id, seq, at }) => {
    const time = known.get(boot_id);
    if (time !== undefined) return time;
    const later = await store.startedStreams(seq, kernel.durableSeq, STREAMS_MAX);
    const next = later.find(isDaemon);
    const [first] = next === undefined ? [] : await store.readStream(next, 1, 1);
    const [last] = first === undefined ? [] : await store.readAll(first.seq - 1, 1);
    if (last?.boot_id !== boot_id) return at;
    known.set(boot_id, last.at);
    return last.at;
  };
}

/** Runs of one step while the daemon is ready: requests are answered between two steps. */
const LATER_RUNS = 50;

/** Streams of one boot that are searched for the start of the next boot. */
const STREAMS_MAX = 20_000;
