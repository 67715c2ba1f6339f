import type { RunSnapshot } from '../../../machines/run/chart.ts';
import type { RunRecord } from '../../contract/contract.ts';
import { isRun } from '../../kernel/stream.ts';
import type { RunsOptions } from '../runs/runs.ts';

/**
 * Cancels the unfinished runs of an asker. Resolves with the number of those that it cancelled. A
 * run of a daemon that is away ends later, and is not counted.
 */
export async function cancelAll(
  { kernel, placement, config }: Pick<RunsOptions, 'kernel' | 'placement' | 'config'>,
  asked_by: string | null,
  cancel: (run_id: string) => Promise<RunRecord>,
): Promise<number> {
  const here = [...kernel.instances.values()].flatMap(({ stream, tail }) =>
    isRun(stream) && (tail as RunSnapshot).context.asked_by === asked_by ? stream : [],
  );
  const limit = config.limits.queue_runs;
  // The home of another daemon is another one.
  const elsewhere = asked_by === null ? [] : await placement.runsElsewhere(asked_by, limit);
  const ids = new Set([...here, ...elsewhere]);
  let cancelled = 0;
  const ends = [...ids].map(async (run_id) => {
    if ((await cancel(run_id)).state === 'cancelled') cancelled += 1;
  });
  const late = Promise.withResolvers<void>();
  const endWait = kernel.clock.after(2 * config.limits.cancel_grace_ms, () => late.resolve());
  await Promise.race([Promise.allSettled(ends), late.promise]);
  endWait();
  return cancelled;
}
