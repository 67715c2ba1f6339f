import type { Failure, FinishReason, Recovery, Usage } from '../../../machines/events.ts';
import type { RunRequest } from '../../../machines/messages.ts';
import {
  isShort,
  type Message,
  type MessagePart,
  type OutputPart,
  promptOf,
  type ResponseFormat,
  systemOf,
  type Tool,
  type ToolChoice,
} from '../../../machines/messages.ts';
import type { RunSnapshot } from '../../../machines/run.ts';
import { isIn, stateName } from '../../../machines/step.ts';
import { type ErrorBody, fromBody, SvcError } from '../../errors.ts';
import { isoTime } from '../../kernel/clock.ts';
import type { RunRow } from '../../store/port.ts';

/** A message as users see it. Images have their size instead of their data. */
export interface RecordedMessage {
  role: Message['role'];
  content: RecordedPart[];
}
export type RecordedPart =
  | Exclude<MessagePart, { type: 'image' }>
  | { type: 'image'; media_type: string; size_bytes: number };

/** A run as users see it. */
export interface RunRecord {
  id: string;
  state: string;
  provider: string;
  model: string;
  cloud: boolean;
  prompt: string;
  system: string | null;
  /** The conversation. Absent when prompt and system say it all. */
  messages?: RecordedMessage[];
  tools?: Tool[];
  tool_choice?: ToolChoice;
  response_format?: ResponseFormat;
  output: string;
  /** The parts of the answer. Absent when it is only text. */
  output_parts?: OutputPart[];
  finish_reason: FinishReason | null;
  /** The text of the request's `stop` that ended the answer. */
  stop_sequence?: string;
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
  /** Name of the token that the request was sent with. */
  asked_by?: string;
  /** The API of the request, such as `openai.chat`. Absent: svc's own. */
  asked_as?: string;
  metadata?: Record<string, string>;
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
    prompt: promptOf(request),
    system: systemOf(request),
    ...conversation(request),
    output: context.output,
    ...(context.parts.length === 0 ? {} : { output_parts: [...context.parts] }),
    finish_reason: context.finish_reason,
    ...(context.stop_sequence === null ? {} : { stop_sequence: context.stop_sequence }),
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
    ...(context.asked_by === null ? {} : { asked_by: context.asked_by }),
    ...(context.asked_as === null ? {} : { asked_as: context.asked_as.api }),
    ...(context.metadata === null ? {} : { metadata: { ...context.metadata } }),
    recovery: context.recovery,
    seq,
  };
}

/** What a request says beside its prompt and system text. */
function conversation(request: RunRequest): Partial<RunRecord> {
  const { messages, tools, tool_choice, response_format } = request;
  return {
    ...(isShort(request) || messages.length === 0 ? {} : { messages: messages.map(recorded) }),
    ...(tools === undefined ? {} : { tools: [...tools] }),
    ...(tool_choice === undefined ? {} : { tool_choice }),
    ...(response_format === undefined ? {} : { response_format }),
  };
}

function recorded({ role, content }: Message): RecordedMessage {
  return {
    role,
    content: content.map((part) =>
      part.type === 'image'
        ? {
            type: 'image',
            media_type: part.media_type,
            size_bytes: Buffer.byteLength(part.data, 'base64'),
          }
        : part,
    ),
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
