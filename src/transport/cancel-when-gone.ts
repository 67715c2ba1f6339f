import type { Runtime } from '../operations/port.ts';
import type { Log } from '../ports/log.ts';

/** Cancels the run when its client disconnects before the end. */
export function cancelWhenGone(
  runtime: Pick<Runtime, 'runs'>,
  id: string,
  gone: AbortSignal,
  log?: Log,
): void {
  const cancel = () =>
    void runtime.runs
      .cancel(id, 'disconnect')
      .catch((error: unknown) => log?.debug({ err: error, run_id: id }, 'cancelling a run failed'));
  if (gone.aborted) cancel();
  else gone.addEventListener('abort', cancel);
}
