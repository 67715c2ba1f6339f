import type { Failure, FinishReason, Recovery, Usage } from '../../../machines/events.ts';
import type { RunSnapshot } from '../../../machines/run.ts';
import { isIn, stateName } from '../../../machines/step.ts';
import { type ErrorBody, fromBody, SvcError } from '../../errors.ts';
import { isoTime } from '../../kernel/clock.ts';
import type { RunRow } from '../../store/port.ts';

/** A run as users see it. */
export interface RunRecord {
  id: string;
  state: string;
  provider: string;
  model: string;
  cloud: boolean;
  prompt: string;
  system: string | null;
  output: string;
  finish_reason: FinishReason | null;
  usage: Usage;
  /** 1 is the next to start. Null: the run is not queued. */
  queue_position: number | null;
  attempts: number;
  created_at: string;
  started_at: string | null;
  first_output_at: string | null;
  ended_at: string | null;
  error: ErrorBody | null;
  idempotency_key: string | null;
  /** The client of the run. The queue takes turns by client. */
  client: string;
  /** What happens to the run after it is cut off. */
  recovery: Recovery;
  /** Position of its last event in the log. */
  seq: number;
}

export function runRecord(
  snapshot: RunSnapshot,
  seq: number,
  queue_position: number | null = null,
): RunRecord {
  const { context } = snapshot;
  const { request } = context;
  return {
    id: context.run_id,
    state: stateName(snapshot),
    provider: request.provider,
    model: request.model,
    cloud: request.cloud,
    prompt: request.prompt,
    system: request.system,
    output: context.output,
    finish_reason: context.finish_reason,
    usage: context.usage ?? { input_tokens: null, output_tokens: null },
    queue_position,
    attempts: context.attempt,
    created_at: isoTime(context.created_at),
    started_at: timeOrNull(context.started_at),
    first_output_at: timeOrNull(context.first_output_at),
    ended_at: timeOrNull(context.ended_at),
    error: errorBody(snapshot, context.error),
    idempotency_key: context.idempotency_key,
    client: context.client,
    recovery: context.recovery,
    seq,
  };
}

/** The projection row. It is committed together with the event that led to this state. */
export function runRow(snapshot: RunSnapshot, seq: number): RunRow {
  const { context } = snapshot;
  const finished = snapshot.status === 'done';
  return {
    run_id: context.run_id,
    state: stateName(snapshot),
    finished,
    provider: context.request.provider,
    model: context.request.model,
    created_at: context.created_at,
    idempotency_key: context.withdrawn ? null : context.idempotency_key,
    request_digest: context.request_digest,
    record: finished ? { ...runRecord(snapshot, seq) } : null,
    seq,
  };
}

function timeOrNull(at: number | null): string | null {
  return at === null ? null : isoTime(at);
}

function errorBody(snapshot: RunSnapshot, failure: Failure | null): ErrorBody | null {
  if (isIn(snapshot, 'cancelled')) return new SvcError('run_cancelled').body();
  if (failure === null || isIn(snapshot, 'completed')) return null;
  return fromBody(failure).body();
}
