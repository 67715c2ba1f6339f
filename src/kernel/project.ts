import type { RunSnapshot } from '../../machines/run.ts';
import type { EventStore, RunRow } from '../store/port.ts';
import { foldStream } from './fold.ts';
import { RUN_PREFIX } from './registry.ts';
import { runRow } from './run-record.ts';

/**
 * The row of a run as its events tell it, for a row that is damaged: what `Kernel` commits with the last fact that is no output. Null where there are no events,
 * or where the pieces of the answer were stored without their text.
 */
export async function projectRun(
  store: Pick<EventStore, 'readStream'>,
  run_id: string,
): Promise<RunRow | null> {
  if (!run_id.startsWith(RUN_PREFIX)) return null;
  let row: RunRow | null = null;
  let whole = true;
  await foldStream(
    store,
    run_id,
    Number.POSITIVE_INFINITY,
    undefined,
    ({ recent, snapshot, seq }) => {
      const event = recent.at(-1);
      if (event?.type === 'run.output_appended') whole = whole && event.data.chars === undefined;
      else row = runRow(snapshot as RunSnapshot, seq);
    },
  );
  const found = row as RunRow | null;
  return found === null || found.finished === false || whole ? found : null;
}
