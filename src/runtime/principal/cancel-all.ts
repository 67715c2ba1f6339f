import type { RunSnapshot } from '../../../machines/run.ts';
import { isRun } from '../../kernel/stream.ts';
import type { RunRecord } from '../runs/record.ts';
import type { RunsOptions } from '../runs/runs.ts';

/** Cancels the unfinished runs of an asker. Resolves with the number of those that it cancelled. */
export async function cancelAll(
  { kernel, store, fleet, config }: Pick<RunsOptions, 'kernel' | 'store' | 'fleet' | 'config'>,
  asked_by: string | null,
  cancel: (run_id: string) => Promise<RunRecord>,
): Promise<number> {
  const here = [...kernel.instances.values()].flatMap(({ stream, tail }) =>
    isRun(stream) && (tail as RunSnapshot).context.asked_by === asked_by ? stream : [],
  );
  const limit = config.limits.queue_runs;
  // The home of another node is another one.
  const anywhere =
    fleet === undefined || asked_by === null
      ? []
      : await store.listRuns({ asked_by, unfinished: true, short: true, limit });
  const ids = new Set([...here, ...anywhere.map(({ run_id }) => run_id)]);
  const ended = await Promise.allSettled([...ids].map(cancel));
  return ended.filter((one) => one.status === 'fulfilled' && one.value.state === 'cancelled')
    .length;
}
