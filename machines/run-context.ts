import type { Failure, FinishReason, Recovery, RunCreated, RunRequest, Usage } from './events.ts';

/** What a run machine knows besides its state. */
export interface RunContext {
  run_id: string;
  request: RunRequest;
  idempotency_key: string | null;
  request_digest: string | null;
  client: string;
  recovery: Recovery;
  resumable: boolean;
  /** What was asked, and what was answered so far, is in the log. */
  content_kept: boolean;
  max_attempts: number;
  max_losses: number;
  attempt: number;
  /** Attempts that failed and were tried again. */
  failures: number;
  /** Times that the work was lost or cut off since the last new text. */
  losses: number;
  /** Deaths of the engine since the last new text for which no other run can be to blame. */
  deaths: number;
  /** The engine died while it computed this run: it computes no other run beside it from now on. */
  isolated: boolean;
  /** Threads that computed the recorded answer; null when no provider said. */
  threads: number | null;
  /** Taken back by the daemon itself, as if it had never been asked. */
  withdrawn: boolean;
  /** Output facts of this run so far. */
  outputs: number;
  output: string;
  output_tokens: number;
  finish_reason: FinishReason | null;
  usage: Usage | null;
  error: Failure | null;
  created_at: number;
  started_at: number | null;
  first_output_at: number | null;
  ended_at: number | null;
  queue_deadline_at: number;
  deadline_at: number;
  first_output_ms: number;
  idle_ms: number;
  cancel_grace_ms: number;
  /** When the present silence (or grace, or backoff) is over. */
  timeout_at: number;
}

/** Before anything happened. */
export function newContext(input: RunCreated): RunContext {
  return {
    run_id: input.run_id,
    request: input.request,
    idempotency_key: input.idempotency_key,
    request_digest: input.request_digest ?? null,
    client: input.client,
    // Logs from before there was a policy: such a run ended when it was cut off.
    recovery: input.recovery ?? 'end',
    resumable: input.resumable ?? false,
    content_kept: input.content !== 'omitted',
    max_attempts: input.max_attempts,
    max_losses: input.max_losses ?? 0,
    attempt: 0,
    failures: 0,
    losses: 0,
    deaths: 0,
    isolated: false,
    threads: null,
    withdrawn: false,
    outputs: 0,
    output: '',
    output_tokens: 0,
    finish_reason: null,
    usage: null,
    error: null,
    created_at: input.at,
    started_at: null,
    first_output_at: null,
    ended_at: null,
    queue_deadline_at: input.queue_deadline_at,
    deadline_at: input.deadline_at,
    first_output_ms: input.first_output_ms,
    idle_ms: input.idle_ms,
    cancel_grace_ms: input.cancel_grace_ms,
    timeout_at: 0,
  };
}
