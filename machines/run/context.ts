import type {
  Completion,
  DeadlineName,
  Price,
  Recovery,
  RunCreated,
  RunEvent,
  Target,
  Usage,
} from '../../src/contract/events.ts';
import {
  type OutputPart,
  partsAfter,
  type RunRequest,
  type SourceRequest,
} from '../../src/contract/messages/parts.ts';
import type { FinishReason } from '../../src/contract/run.ts';
import type { OnlyRecorded } from '../../src/contract/run-events.ts';
import { RUN_ENDS, TIMEOUT_ERROR } from '../../src/contract/words.ts';
import type { Failure } from '../events.ts';
import { isToBlame } from '../retry.ts';
import type { ToolCall } from '../tool-call.ts';
import { callsAfter, callsIn, type Phase, phaseOf, type Turn } from './turns.ts';

export type { Completion, DeadlineName, FinishReason, Recovery, RunCreated, RunEvent, Usage };

const ENDS: ReadonlySet<string> = new Set(RUN_ENDS.map((end): RunEvent['type'] => `run.${end}`));
/** The events with which a run begins or ends. */
export const BOUNDS: readonly string[] = ['run.accepted', ...ENDS];

/** Whether an event of this type ends a run. */
export function isTerminalEvent(type: string): boolean {
  return ENDS.has(type);
}

/** An attempt that failed, after which the run continued. */
export interface FailedAttempt {
  readonly attempt: number;
  readonly provider: string;
  readonly model: string;
  readonly code: string;
  readonly message: string;
  readonly at: number;
  readonly retryable: boolean;
  readonly status?: number;
  readonly retry_after_ms?: number;
}

/** One crossing to a cloud provider. */
export interface Sent {
  readonly attempt: number;
  readonly provider: string;
  readonly model: string;
  /** UTF-8 size of messages, tools and format. Null: the log is older than its record. */
  readonly bytes: number | null;
  readonly at: number;
}

/** What a run knows besides its state. */
export interface RunContext {
  run_id: string;
  /** Its provider, model and cloud are the present target. */
  request: RunRequest;
  /** What that target cost when the run was accepted. Null: it had no price. */
  price: Price | null;
  /** The targets that are left, in their order. */
  fallbacks: readonly Target[];
  failed_attempts: readonly FailedAttempt[];
  /** The requests that left this machine. */
  sent: readonly Sent[];
  idempotency_key: string | null;
  request_digest: string | null;
  client: string;
  asked_by: string | null;
  asked_as: SourceRequest | null;
  /** Names the span of the client, for tracing. */
  traceparent: string | null;
  metadata: Readonly<Record<string, string>> | null;
  /** The first run of its conversation, which may be itself. */
  conversation: string;
  /** The run whose answer it follows. */
  continues: string | null;
  /** Names of the other tokens that asked turns whose texts it repeats. */
  turns_of: readonly string[];
  /** Where the client was, such as a folder. */
  origin: string | null;
  recovery: Recovery;
  /** The model is called once more if its answer does not have the requested form. */
  ask_again: boolean;
  resumable: boolean;
  /** The log has the prompt and all output in full. */
  content_kept: boolean;
  max_attempts: number;
  /** Attempts at a target that another one follows. Null in logs older than `run.sent_to_cloud`. */
  target_attempts: number | null;
  max_losses: number;
  attempt: number;
  /** Attempts at the present target that failed. */
  failures: number;
  /** Times that the work was lost since the last new text. */
  losses: number;
  /** Boots in a row that ended while they worked on this run, since the last new text. */
  boots: number;
  /** Deaths of the engine since the last new text that only this run can have caused. */
  deaths: number;
  /** The engine died while it computed this run: from now on it computes this run alone. */
  isolated: boolean;
  /** Threads that computed the recorded output; null if the provider does not say. */
  threads: number | null;
  /** Some of the recorded output was computed together with other runs, so it is not exact. */
  batched: boolean;
  /** The file of the model that computed the recorded output; null if the provider has none. */
  model_file: string | null;
  /** How the prompt was computed: see `RunOutput`. Null: in batches from its beginning. */
  prompt_parts: readonly number[] | null;
  /** Cancelled by the daemon because its acceptance could not be recorded in time. */
  withdrawn: boolean;
  /** Number of outputs so far. */
  outputs: number;
  /** The text of the answer. */
  output: string;
  /** All parts of the answer, its text too. Empty while the answer is only text. */
  parts: readonly OutputPart[];
  output_tokens: number;
  /** Turns of the model before the present answer. */
  turns: readonly Turn[];
  /** The calls of those turns, in their order. */
  calls: readonly ToolCall[];
  /** Since when the run waits for a person. Null: it does not. */
  paused_at: number | null;
  /** How long it has waited for persons before. */
  paused_ms: number;
  /** How the answer ended. Null: it is not complete. */
  completion: Completion | null;
  error: Failure | null;
  created_at: number;
  started_at: number | null;
  first_output_at: number | null;
  ended_at: number | null;
  queue_deadline_at: number;
  /** Longest wait in the queue of one target. */
  queue_ms: number;
  deadline_at: number;
  first_output_ms: number;
  idle_ms: number;
  cancel_grace_ms: number;
  /** When the current wait ends: for output, for the next attempt, or for the work to stop. */
  timeout_at: number;
}

/** The context of a new run. */
export function newContext(input: RunCreated): RunContext {
  return {
    run_id: input.run_id,
    request: input.request,
    price: input.price ?? null,
    fallbacks: input.fallbacks ?? [],
    failed_attempts: [],
    sent: [],
    idempotency_key: input.idempotency_key,
    request_digest: input.request_digest ?? null,
    client: input.client,
    asked_by: input.asked_by ?? null,
    asked_as: input.asked_as ?? null,
    traceparent: input.traceparent ?? null,
    metadata: input.metadata ?? null,
    conversation: input.conversation ?? input.run_id,
    continues: input.continues ?? null,
    turns_of: input.turns_of ?? [],
    origin: input.origin ?? null,
    // Old logs have no policy: such a run ended when it was cut off.
    recovery: input.recovery ?? 'end',
    ask_again: input.ask_again ?? false,
    resumable: input.resumable ?? false,
    content_kept: input.content !== 'omitted',
    max_attempts: input.max_attempts,
    target_attempts: input.target_attempts ?? null,
    max_losses: input.max_losses ?? 0,
    attempt: 0,
    failures: 0,
    losses: 0,
    boots: 0,
    deaths: 0,
    isolated: false,
    ...UNCOMPUTED,
    withdrawn: false,
    outputs: 0,
    output: '',
    parts: [],
    output_tokens: 0,
    turns: [],
    calls: [],
    paused_at: null,
    paused_ms: 0,
    completion: null,
    error: null,
    created_at: input.at,
    started_at: null,
    first_output_at: null,
    ended_at: null,
    queue_deadline_at: input.queue_deadline_at,
    queue_ms: input.queue_deadline_at - input.at,
    deadline_at: input.deadline_at,
    first_output_ms: input.first_output_ms,
    idle_ms: input.idle_ms,
    cancel_grace_ms: input.cancel_grace_ms,
    timeout_at: 0,
  };
}

/** Who cancels a run that the daemon accepted and then refuses, because the disk is full. */
export const CANCELLED_BY_DISK_FULL = 'store_full';

/** How the recorded output was computed, before there is any. */
const UNCOMPUTED = { threads: null, batched: false, model_file: null, prompt_parts: null };

const UNANSWERED = { outputs: 0, output: '', parts: [], output_tokens: 0, ...UNCOMPUTED };

/** What an event changes, whatever the state is. `countLoss` has what depends on the state. */
export function evolve(context: RunContext, event: RunEvent): Partial<RunContext> {
  const graceEndsAt = event.at + context.cancel_grace_ms;
  switch (event.type) {
    case 'run.started':
      return {
        attempt: event.attempt,
        started_at: context.started_at ?? event.at,
        error: null,
        timeout_at: event.at + context.first_output_ms,
        ...addUnrecordedSent(context, event),
        ...(event.resumes ? {} : UNANSWERED),
      };
    case 'run.output_appended':
      return {
        outputs: context.outputs + 1,
        output: event.kind === undefined ? context.output + event.text : context.output,
        parts: partsAfter(context.parts, context.output, event),
        output_tokens: context.output_tokens + event.token_ids.length,
        content_kept: context.content_kept && event.offset === undefined,
        threads: event.threads ?? context.threads,
        batched: context.batched || event.batched === true,
        model_file: event.model_file ?? context.model_file,
        prompt_parts: event.prompt_parts ?? context.prompt_parts,
        first_output_at: context.first_output_at ?? event.at,
        timeout_at: event.at + context.idle_ms,
        ...(context.recovery === 'resume' ? { losses: 0, boots: 0, deaths: 0 } : {}),
      };
    case 'run.attempt_failed':
      return {
        failures: context.failures + 1,
        failed_attempts: [...context.failed_attempts, failedAttempt(context, event)],
        error: event.error,
        timeout_at: event.retry_at,
        ...(event.next === undefined ? {} : moveToTarget(context, event.next, event.at)),
      };
    case 'run.turn_completed':
    case 'run.asked_again': {
      const { output, parts, attempt, turns, calls } = context;
      const problem = event.type === 'run.asked_again' ? (event.form_problem ?? '') : null;
      return {
        turns: [...turns, { attempt, output, parts, usage: event.usage, problem }],
        calls: [...calls, ...callsIn(context, event.at)],
        failures: 0,
        losses: 0,
        boots: 0,
        deaths: 0,
        isolated: false,
        ...UNANSWERED,
      };
    }
    case 'run.tool_requested':
    case 'run.tool_allowed':
    case 'run.tool_denied':
    case 'run.tool_started':
    case 'run.tool_reported':
    case 'run.tool_finished':
    case 'run.tool_lost':
    case 'run.tool_decided':
      return withToolEvent(context, event);
    case 'run.sent_to_cloud': {
      const { attempt, provider, model, bytes, at } = event;
      return { sent: [...context.sent, { attempt, provider, model, bytes, at }] };
    }
    case 'run.suspended':
      return { error: event.error };
    case 'run.recovered': {
      const { downtime_ms } = event;
      const shiftedTimes = {
        queue_deadline_at: context.queue_deadline_at + downtime_ms,
        deadline_at: context.deadline_at + downtime_ms,
        timeout_at: context.timeout_at + downtime_ms,
        paused_at: context.paused_at === null ? null : context.paused_at + downtime_ms,
        paused_ms: context.paused_ms + (context.paused_at === null ? 0 : downtime_ms),
      };
      return { ...shiftedTimes, ...withToolEvent({ ...context, ...shiftedTimes }, event) };
    }
    case 'run.cancel_requested':
      return {
        ...withToolEvent(context, event),
        withdrawn: context.withdrawn || event.by === CANCELLED_BY_DISK_FULL,
        timeout_at: graceEndsAt,
      };
    case 'run.deadline_passed':
      return {
        ...withToolEvent(context, event),
        error: event.error ?? timeoutError(event.deadline),
        timeout_at: graceEndsAt,
      };
    case 'run.interrupt_requested':
      return { timeout_at: graceEndsAt };
    case 'run.completed':
      return { completion: event, ended_at: event.at };
    case 'run.failed':
    case 'run.interrupted':
      return { ...withToolEvent(context, event), error: event.error, ended_at: event.at };
    case 'run.cancelled':
    case 'run.timed_out':
      return { ended_at: event.at };
    default:
      event satisfies { type: OnlyRecorded };
      return {};
  }
}

/**
 * The calls after an event. The time in which the run waits for a person alone counts for no
 * deadline.
 */
function withToolEvent(context: RunContext, event: RunEvent): Partial<RunContext> {
  const calls = context.calls.length === 0 ? null : callsAfter(context.calls, event);
  if (calls === null) return {};
  const { paused_at, paused_ms, deadline_at } = context;
  const isPaused = phaseOf(calls).startsWith('awaiting');
  if (isPaused === (paused_at !== null)) return { calls };
  if (isPaused) return { calls, paused_at: event.at };
  const ms = event.at - (paused_at ?? event.at);
  return { calls, paused_at: null, paused_ms: paused_ms + ms, deadline_at: deadline_at + ms };
}

/** What the calls of a run wait for after an event of a call. Null: no call accepts it. */
export function phaseAfter({ calls }: RunContext, event: RunEvent): Phase | null {
  const after = callsAfter(calls, event);
  if (after !== null) return phaseOf(after);
  return event.type === 'run.recovered' ? phaseOf(calls) : null;
}

/** Moves to the next target, which gets its own attempts, losses and time in the queue. */
function moveToTarget(
  { request, fallbacks, queue_ms }: RunContext,
  { provider, model, cloud, resumable = false, price }: Target,
  now: number,
): Partial<RunContext> {
  return {
    request: { ...request, provider, model, cloud },
    price: price ?? null,
    fallbacks: fallbacks.slice(1),
    resumable,
    queue_deadline_at: now + queue_ms,
    failures: 0,
    losses: 0,
    boots: 0,
    deaths: 0,
    isolated: false,
    ...UNCOMPUTED,
  };
}

function failedAttempt(
  { request }: RunContext,
  { attempt, error, at }: Extract<RunEvent, { type: 'run.attempt_failed' }>,
): FailedAttempt {
  const { provider, model } = request;
  const { param: _, ...failure } = error;
  return { attempt, provider, model, ...failure, at };
}

/** In an old log only the start of an attempt shows that its prompt left this machine. */
function addUnrecordedSent(
  { request, target_attempts, sent }: RunContext,
  { attempt, at }: Extract<RunEvent, { type: 'run.started' }>,
): Partial<RunContext> {
  if (target_attempts !== null || !request.cloud) return {};
  const { provider, model } = request;
  return { sent: [...sent, { attempt, provider, model, bytes: null, at }] };
}

/** The work of a run was lost: counts the loss, and isolates a run that the engine computed. */
export function countLoss(context: RunContext, event: RunEvent): Partial<RunContext> {
  const losses = context.losses + 1;
  if (event.type !== 'run.suspended') return { losses, boots: context.boots + 1 };
  return {
    losses,
    deaths: context.deaths + (isToBlame(event.computing) ? 1 : 0),
    isolated: context.isolated || (event.computing ?? 0) > 0,
  };
}

export function timeoutError(deadline: DeadlineName): Failure {
  return { code: 'run_timed_out', message: TIMEOUT_ERROR[deadline] ?? '', retryable: true };
}
