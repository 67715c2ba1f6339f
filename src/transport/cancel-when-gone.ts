import type { Log } from '../kernel/port.ts';
import type { Runtime } from '../runtime/contract.ts';

/** Cancels the run when its client disconnects before the end. */
export function cancelWhenGone(
  runtime: Pick<Runtime, 'cancelRun'>,
  id: string,
  gone: AbortSignal,
  log?: Log,
): void {
  const cancel = () =>
    void runtime
      .cancelRun(id, 'disconnect')
      .catch((error: unknown) => log?.debug({ err: error, run_id: id }, 'cancelling a run failed'));
  if (gone.aborted) cancel();
  else gone.addEventListener('abort', cancel, { once: true });
}
