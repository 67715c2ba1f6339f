import type { RunSnapshot } from '../../../machines/run/chart.ts';
import { isTerminalEvent } from '../../../machines/run/context.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { RunKey } from '../../kernel/stream.ts';

/** A finished run as a trace: one span, and one inside it for each attempt of this boot. */
export interface RunTrace {
  /** The header of the request, which names the parent. */
  traceparent: string | null;
  outcome: string;
  started_at: number;
  first_output_at: number | null;
  ended_at: number;
  error: string | null;
  attempts: readonly AttemptSpan[];
  context: RunSnapshot['context'];
}

export interface AttemptSpan {
  attempt: number;
  started_at: number;
  ended_at: number;
  error: string | null;
}

/**
 * Makes a trace of each run that ends, from its events. It owns the attempts of unfinished runs.
 *
 * 1. A run has at most `ATTEMPTS_MAX` attempts here. The number of unfinished runs is bounded too.
 * 2. `onTrace` never throws, and does not wait.
 */
export function traceRuns(kernel: Kernel, onTrace: (trace: RunTrace) => void): void {
  const open = new Map<RunKey, AttemptSpan[]>();
  kernel.subscribe({ machine: 'run' }, ({ type, at, stream }, { context }) => {
    if (type === 'run.output_appended') return;
    const attempts = open.get(stream) ?? [];
    const last = attempts.at(-1);
    if (type === 'run.started' && attempts.length < ATTEMPTS_MAX) {
      attempts.push({ attempt: context.attempt, started_at: at, ended_at: 0, error: null });
      open.set(stream, attempts);
    } else if (ENDS_ATTEMPT.has(type) || isTerminalEvent(type)) {
      if (last?.ended_at === 0)
        Object.assign(last, { ended_at: at, error: errorOf(type, context) });
    }
    if (!isTerminalEvent(type)) return;
    open.delete(stream);
    onTrace({
      traceparent: context.traceparent,
      outcome: type.slice('run.'.length),
      started_at: context.created_at,
      first_output_at: context.first_output_at,
      ended_at: at,
      error: errorOf(type, context),
      attempts,
      context,
    });
  });
}

/** The code of the failure, or the outcome of the run. Null for an answer. */
function errorOf(type: string, { error }: RunSnapshot['context']): string | null {
  if (type === 'run.completed') return null;
  return type === 'run.cancelled' || type === 'run.timed_out' || error === null
    ? type.replace('.', '_')
    : error.code;
}

const ENDS_ATTEMPT: ReadonlySet<string> = new Set(['run.attempt_failed', 'run.suspended']);
const ATTEMPTS_MAX = 32;
