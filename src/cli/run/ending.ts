import { errors, fromBody, SvcError } from '../../errors.ts';
import type { Results } from '../../transport/control/protocol.ts';

export interface Ending {
  exit: number;
  error: SvcError | null;
}

/** The exit code of a finished run, and its error. */
export function ending({ id, state, error, output }: Results['run.get']): Ending {
  if (state === 'completed') return { exit: 0, error: null };
  const cause = error === null ? fallback(state) : fromBody(error);
  const kept = output === '' ? '' : ' The text so far is saved.';
  const shown = new SvcError(cause.code, `${cause.message}${kept}`, {
    hint: output === '' ? cause.hint : `See: svc runs show ${id}`,
  });
  return { exit: EXIT[state] ?? cause.spec.exit, error: shown };
}

/** States with one exit code for every cause. */
const EXIT: Record<string, number> = {
  cancelled: errors.run_cancelled.exit,
  timed_out: errors.run_timed_out.exit,
  interrupted: errors.run_interrupted.exit,
};

function fallback(state: string): SvcError {
  if (state === 'cancelled') return new SvcError('run_cancelled');
  if (state === 'timed_out') return new SvcError('run_timed_out');
  return new SvcError(state === 'interrupted' ? 'run_interrupted' : 'provider_failed');
}
