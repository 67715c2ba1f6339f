import type { AnyMachineSnapshot } from 'xstate';
import type { RunSnapshot } from '../../../machines/run.ts';
import { foldStream } from '../../kernel/fold.ts';
import { isRun } from '../../kernel/stream.ts';
import type { EventStore, RunRow, StoredEvent } from '../../store/port.ts';
import { runRow } from './record.ts';

/** The row of a run after this event. Null for output, which changes no row, and other machines. */
export function projectEvent(
  { stream, type, seq }: Pick<StoredEvent, 'stream' | 'type' | 'seq'>,
  snapshot: AnyMachineSnapshot,
): RunRow | null {
  return isRun(stream) && type !== 'run.output_appended'
    ? runRow(snapshot as RunSnapshot, seq)
    : null;
}

/**
 * Rebuilds a damaged row of a run from its events. Null without events, or if the output of a
 * finished run was stored without its text.
 */
export async function projectRun(
  store: Pick<EventStore, 'readStream'>,
  run_id: string,
): Promise<RunRow | null> {
  if (!isRun(run_id)) return null;
  let row: RunRow | null = null;
  let isWhole = true;
  await foldStream(
    store,
    run_id,
    Number.POSITIVE_INFINITY,
    undefined,
    ({ recent, snapshot, stream, seq }) => {
      const event = recent.at(-1);
      if (event?.type === 'run.output_appended' && event.data.chars !== undefined) isWhole = false;
      if (event !== undefined)
        row = projectEvent({ stream, type: event.type, seq }, snapshot) ?? row;
    },
  );
  const rebuilt = row as RunRow | null;
  return rebuilt === null || !rebuilt.finished || isWhole ? rebuilt : null;
}
