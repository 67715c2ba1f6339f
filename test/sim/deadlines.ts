import { isIn } from '../../machines/step.ts';
import type { StoredEvent } from '../../src/kernel/store/port.ts';
import type { Oracle, RunView } from './oracle.ts';
import { hold } from './violation.ts';

/**
 * A deadline fires only after its time has passed on the clock of a live daemon.
 * Changes of the wall clock between two boots do not count.
 */
export function checkDeadline(oracle: Oracle, run: RunView, { type, at, data }: StoredEvent): void {
  const { context } = run.snapshot;
  const { created } = run;
  const early = (passed: number, least: number, what: string) =>
    hold(
      'deadline-too-early',
      passed >= least,
      () => `${what} of ${run.alias} after ${passed} ms instead of ${least}`,
    );
  if (type === 'run.started' || type === 'run.output_appended') run.active_at = at;
  if (type === 'run.started' && isIn(run.snapshot, 'backoff'))
    early(at, context.timeout_at, 'the next attempt');
  if (type !== 'run.deadline_passed') return;
  const lived = oracle.awake(at) - run.awake_at;
  if (data.deadline === 'total')
    early(lived, created.deadline_at - created.at, 'the time as a whole');
  if (data.deadline === 'queue')
    early(lived, created.queue_deadline_at - created.at, 'the time in the queue');
  if (data.deadline === 'idle') early(at - run.active_at, created.idle_ms, 'the silence');
  if (data.deadline === 'first_output')
    early(at - run.active_at, created.first_output_ms, 'the wait for output');
}
