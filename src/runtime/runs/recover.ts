import { endingOf } from '../../../machines/ending.ts';
import type { DaemonCreated, DaemonEvent, LastBoot } from '../../../machines/events.ts';
import { afterCrash } from '../../../machines/run-next.ts';
import { isIn } from '../../../machines/step.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { isDaemon, type RunKey, stream } from '../../kernel/stream.ts';
import { type EventStore, type StoredEvent, toFact } from '../../store/port.ts';
import type { Scheduler } from './scheduler.ts';

export interface RecoveryProgress {
  /** Runs in one step. */
  step_runs: number;
  /** So many are done, and there are more. What it throws ends the recovery. */
  made(runs: number): Promise<void>;
}

const IN_ONE_STEP: RecoveryProgress = {
  step_runs: Number.MAX_SAFE_INTEGER,
  made: () => Promise.resolve(),
};

/** How the boot before ended, as the two ends of its stream tell, however long that is. */
export async function readLastBoot(
  store: EventStore,
  boot_id: string | null,
  host_boot_id: string | null,
): Promise<LastBoot | null> {
  if (boot_id === null) return null;
  const daemon = stream.daemon(boot_id);
  const [first] = await store.readStream(daemon, 1, 1);
  const last = await store.lastEvent(daemon);
  if (first === undefined || last === null) return null;
  const ending = endingOf(
    toFact(first) as DaemonCreated,
    last.type as DaemonEvent['type'],
    host_boot_id,
  );
  const { unfinished } = await store.countRuns();
  return { boot_id, ending, at: last.at, unfinished_runs: unfinished };
}

/**
 * Settles what earlier lives of the daemon left: what waited waits again, in its order; what was cut off is taken up again or ends,
 * as its policy says. It costs what was unfinished, not what has ever happened.
 *
 * It goes in steps, each of which is durable before the next begins: a start that is cut off has got further than the one before.
 * No deadline runs meanwhile: time in which no daemon ran counts for none, and the clock may have been set in between. Nor does the
 * time of a life that did not get as far as to take the run up.
 */
export async function recoverRuns(
  kernel: Kernel,
  store: EventStore,
  scheduler: Scheduler,
  progress: RecoveryProgress = IN_ONE_STEP,
): Promise<{ queued: number; suspended: number; ended: number }> {
  const lastTime = lastTimes(kernel, store);
  let [cut, ended] = [0, 0];
  const unfinished = (await store.unfinishedRuns()).map(stream.run);
  const recoverStep = async (step: readonly RunKey[]) => {
    const recorded: Promise<boolean>[] = [];
    // All are read before the first is recorded: a read would wait for the commit of the one before it.
    for (const run_id of step) await kernel.load(run_id);
    for (const run_id of step) {
      const last = kernel.instance(run_id)?.recent.at(-1);
      const downtime_ms = last === undefined ? 0 : kernel.clock.now() - (await lastTime(last));
      // Since it is in memory it may have been cancelled.
      const snapshot = kernel.tail(run_id);
      const fact = snapshot === undefined ? null : afterCrash(snapshot, downtime_ms);
      if (snapshot === undefined || fact === null) continue;
      const done = kernel.tryAppend(run_id, fact);
      // It is waited for at the end of the step, and may fail before.
      done.catch(() => {});
      recorded.push(done);
      if (fact.type === 'run.recovered') {
        if (!isIn(snapshot, 'queued')) cut += 1;
        scheduler.adopt(run_id, kernel.tail(run_id) ?? snapshot);
      } else ended += 1;
    }
    await Promise.all(recorded);
  };
  for (let done = 0; done < unfinished.length; ) {
    await recoverStep(unfinished.slice(done, done + progress.step_runs));
    done += progress.step_runs;
    if (done < unfinished.length) await progress.made(done);
  }
  // Some may have passed their deadline meanwhile and be gone; those that are being ended are settled later.
  const unsettled = scheduler.queued + scheduler.running;
  const suspended = Math.min(cut, unsettled);
  return { queued: unsettled - suspended, suspended, ended };
}

/** For a fact, the time of the last one of the same life, by the clock of that life. */
function lastTimes(kernel: Kernel, store: EventStore): (fact: StoredEvent) => Promise<number> {
  const known = new Map<string, number>();
  return async ({ boot_id, seq, at }) => {
    const time = known.get(boot_id);
    if (time !== undefined) return time;
    const later = await store.startedStreams(seq + 1, kernel.durableSeq, STREAMS_MAX);
    const next = later.find(isDaemon);
    const [begin] = next === undefined ? [] : await store.readStream(next, 1, 1);
    const [last] = begin === undefined ? [] : await store.readAll(begin.seq - 1, 1);
    if (last?.boot_id !== boot_id) return at;
    known.set(boot_id, last.at);
    return last.at;
  };
}

/** Streams of one life that are looked through for the beginning of the next. */
const STREAMS_MAX = 20_000;
