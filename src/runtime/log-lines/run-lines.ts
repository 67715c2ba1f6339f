import type { Failure } from '../../../machines/events.ts';
import { shownTarget, type Target, targetName } from '../../../machines/failover.ts';
import type { RunContext } from '../../../machines/run-context.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Log } from '../../kernel/port.ts';
import { seconds } from './words.ts';

/**
 * Logs when a run was accepted, when it is tried again, and how it ended. No line has a text of the
 * prompt or of the answer. A message of a provider was cleaned of them before.
 */
export function logRuns(kernel: Kernel, log: Log): void {
  kernel.subscribe({ machine: 'run' }, ({ type, at, data }, { context }) => {
    // Most events are output.
    if (type === 'run.output_appended') return;
    const { run_id } = context;
    switch (type) {
      case 'run.accepted':
        return log.info({ run_id }, `${run_id} accepted: ${targetOf(context)}, ${asker(context)}`);
      case 'run.completed':
        return log.info(
          { run_id },
          `${run_id} completed in ${took(context, at)}${tokens(context, at)}`,
        );
      case 'run.cancelled':
        return log.info(
          { run_id },
          `${run_id} cancelled after ${took(context, at)}${tokens(context, at)}`,
        );
      case 'run.failed':
        return warn(log, context, `failed after ${took(context, at)}`);
      case 'run.interrupted':
        return warn(log, context, `ended unfinished after ${took(context, at)}`);
      case 'run.timed_out':
        return warn(log, context, `took too long and ended after ${took(context, at)}`);
      case 'run.suspended':
        return warn(log, context, 'was cut off and waits to resume');
      case 'run.attempt_failed':
        return warn(log, context, again(data, at), data.error as Failure);
    }
  });
}

function warn(log: Log, context: RunContext, what: string, error = context.error): void {
  const { run_id } = context;
  if (error === null) log.warn({ run_id }, `${run_id} ${what}`);
  else log.warn({ run_id, code: error.code }, `${run_id} ${what}: ${error.message}`);
}

/** What follows a failed attempt. */
function again(data: Record<string, unknown>, at: number): string {
  const { attempt, retry_at, next } = data as { attempt: number; retry_at: number; next?: Target };
  return next === undefined
    ? `failed in attempt ${attempt} and is tried again in ${seconds(retry_at - at)}`
    : `failed in attempt ${attempt} and goes on with ${targetName(next)}`;
}

function targetOf({ request }: RunContext): string {
  const target = shownTarget(request);
  return request.cloud ? `${target} (cloud)` : target;
}

/** The name of the token, else the client. */
function asker({ asked_by, client }: RunContext): string {
  return asked_by ?? client;
}

function took({ created_at }: RunContext, at: number): string {
  return seconds(at - created_at);
}

/** `: 12 tokens in, 45 out, 37 a second, stop`. */
function tokens(context: RunContext, at: number): string {
  const { usage, first_output_at, finish_reason } = context;
  const input = usage?.input_tokens ?? null;
  const output = usage?.output_tokens ?? context.output_tokens;
  const ms = first_output_at === null ? 0 : at - first_output_at;
  const rate = output > 1 && ms > 0 ? `, ${Math.round((output - 1) / (ms / 1000))} a second` : '';
  const reason = finish_reason === null ? '' : `, ${finish_reason}`;
  return `: ${input === null ? '' : `${input} tokens in, `}${output} tokens out${rate}${reason}`;
}
