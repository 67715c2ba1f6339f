import type { Failure } from '../../../machines/events.ts';
import type { Target } from '../../../machines/failover.ts';
import type { MessagePart, RunRequest, Tool } from '../../../machines/messages.ts';
import type { RunCreated, RunEvent, Usage } from '../../../machines/run/context.ts';

/**
 * The fields of a run's events. Events of our log have them. Events of a file may not.
 *
 * The types of the events decide which fields there are. A table with another field, or without
 * one, does not compile. Neither does a check that refuses a value of its type.
 */

/** Refuses no value of the type V. It may accept more. */
type Is<V> = ((value: unknown) => boolean) & { readonly accepts?: (value: V) => void };
/** The field may be absent. */
interface Optional<V> {
  readonly absentOr: Is<V>;
}
type Fields = Record<string, unknown>;
type Shape<T> = {
  readonly [K in keyof T]-?: Pick<Fields, never> extends Pick<T, K>
    ? Optional<Exclude<T[K], undefined>>
    : Is<T[K]>;
};
type Data<T extends { type: string }> = Omit<T, 'type' | 'at'>;

const text: Is<string> = (value) => typeof value === 'string';
const number: Is<number> = (value) => typeof value === 'number' && Math.abs(value) <= 8.64e15;
const flag: Is<boolean> = (value) => typeof value === 'boolean';
/** No fold and no message reads the field. */
const unread: Is<unknown> = () => true;
function orNull<V>(is: Is<V>): Is<V | null> {
  return (value) => value === null || is(value);
}
function listOf<V>(is: Is<V>): Is<readonly V[]> {
  return (value) => Array.isArray(value) && value.every(is);
}
function object<T>(shape: Shape<T>): Is<T> {
  return (value) =>
    typeof value === 'object' && value !== null && wrongField(shape, value as Fields) === null;
}
function optional<V>(absentOr: Is<V>): Optional<V> {
  return { absentOr };
}

const PARTS: { readonly [T in MessagePart['type']]: Shape<Extract<MessagePart, { type: T }>> } = {
  text: { type: text, text },
  image: { type: text, media_type: text, data: text },
  reasoning: { type: text, text },
  refusal: { type: text, text },
  tool_call: { type: text, id: text, name: text, arguments: text },
  tool_result: { type: text, id: text, text, is_error: unread },
};
/** A part of an unknown type counts as a text. */
const part: Is<MessagePart> = (value) => {
  if (!object<{ type: string }>({ type: text })(value)) return false;
  const { type } = value as { type: MessagePart['type'] };
  const shape: Shape<object> = Object.hasOwn(PARTS, type) ? PARTS[type] : PARTS.text;
  return object(shape)(value) && !Object.values(value as Fields).some(isNested);
};
function isNested(value: unknown): boolean {
  return typeof value === 'object';
}

const request = object<RunRequest>({
  provider: text,
  model: text,
  cloud: flag,
  messages: listOf(object({ role: text, content: listOf(part) })),
  tools: optional(listOf(object<Tool>({ name: text, description: unread, parameters: unread }))),
  tool_choice: optional(unread),
  response_format: optional(unread),
  stop: optional(unread),
  max_tokens: unread,
  temperature: unread,
  seed: unread,
  seed_asked: unread,
  top_p: optional(unread),
  logprobs: optional(unread),
  presence_penalty: optional(unread),
  frequency_penalty: optional(unread),
  reasoning_effort: optional(unread),
  verbosity: optional(unread),
  parallel_tool_calls: optional(unread),
  top_k: optional(unread),
  min_p: optional(unread),
  repeat_penalty: optional(unread),
  context_tokens: optional(unread),
});
const target = object<Target>({
  provider: text,
  model: text,
  cloud: flag,
  resumable: optional(unread),
});
const error = object<Failure>({
  code: text,
  message: text,
  retryable: flag,
  param: optional(unread),
  retry_after_ms: optional(number),
  status: optional(number),
  hint: optional(text),
});
const usage = object<Usage>({
  input_tokens: orNull(number),
  output_tokens: orNull(number),
  cached_tokens: optional(number),
  cache_write_tokens: optional(number),
  reasoning_tokens: optional(unread),
});

type Recorded = RunCreated | RunEvent;

/** The fields of each type of event. */
const EVENTS: {
  readonly [T in Recorded['type']]: Shape<Data<Extract<Recorded, { type: T }>>>;
} = {
  'run.accepted': {
    run_id: text,
    request,
    client: text,
    idempotency_key: orNull(text),
    request_digest: optional(orNull(text)),
    traceparent: optional(text),
    asked_by: optional(unread),
    asked_as: optional(unread),
    metadata: optional(unread),
    conversation: optional(text),
    continues: optional(text),
    turns_of: optional(unread),
    origin: optional(text),
    recovery: optional(text),
    resumable: optional(flag),
    content: optional(text),
    fallbacks: optional(listOf(target)),
    max_attempts: number,
    target_attempts: optional(number),
    max_losses: optional(number),
    queue_deadline_at: number,
    deadline_at: number,
    first_output_ms: number,
    idle_ms: number,
    cancel_grace_ms: number,
  },
  'run.started': { attempt: number, resumes: optional(flag) },
  'run.output_appended': {
    attempt: number,
    text,
    token_ids: listOf(number),
    kind: optional(text),
    call: optional(object({ id: text, name: text })),
    logprobs: optional(unread),
    offset: optional(number),
    part: optional(unread),
    threads: optional(number),
    batched: optional(flag),
    model_file: optional(text),
    prompt_parts: optional(listOf(number)),
  },
  'run.completed': {
    attempt: number,
    finish_reason: text,
    usage,
    stop_sequence: optional(unread),
    load_ms: optional(unread),
  },
  'run.attempt_failed': { attempt: number, error, retry_at: number, next: optional(target) },
  'run.sent_to_cloud': { attempt: number, provider: text, model: text, bytes: number },
  'run.failed': { attempt: number, error },
  'run.suspended': { attempt: number, error, computing: optional(number) },
  'run.recovered': { downtime_ms: number },
  'run.cancel_requested': { by: text },
  'run.deadline_passed': { deadline: text, error: optional(error) },
  'run.interrupt_requested': { reason: text },
  'run.cancelled': { forced: flag },
  'run.timed_out': { forced: flag },
  'run.interrupted': { error },
};

/** What is wrong with an event, as the end of a sentence; null when nothing is. */
export function checkRunEvent(
  type: string,
  data: Fields,
  isFirst: boolean,
  run_id: string,
): string | null {
  if (isFirst !== (type === 'run.accepted'))
    return isFirst ? 'is not the acceptance of the run' : 'accepts the run again';
  if (isFirst && data.run_id !== run_id) return 'is of another run';
  const wrong = wrongField(EVENTS[type as Recorded['type']], data);
  return wrong === null ? null : `(${type}) has no right ${wrong}`;
}

/** The first wrong field. */
function wrongField(shape: object, value: Fields): string | null {
  const fields = Object.entries(shape as Record<string, Is<unknown> | Optional<unknown>>);
  const isRight = ([name, is]: (typeof fields)[number]) =>
    typeof is === 'function'
      ? is(value[name])
      : value[name] === undefined || is.absentOr(value[name]);
  return fields.find((field) => !isRight(field))?.[0] ?? null;
}
