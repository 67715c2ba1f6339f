/**
 * The fields of a run's events that folds and messages rely on. Events of our log have them. Events
 * of a file may not.
 */

type Is = (value: unknown) => boolean;
type Fields = Record<string, unknown>;

const text: Is = (value) => typeof value === 'string';
const number: Is = (value) => typeof value === 'number' && Math.abs(value) <= 8.64e15;
const flag: Is = (value) => typeof value === 'boolean';
const orNull =
  (is: Is): Is =>
  (value) =>
    value === null || is(value);
const listOf =
  (is: Is): Is =>
  (value) =>
    Array.isArray(value) && value.every(is);
const numbers = listOf(number);
const object =
  (fields: Record<string, Is>): Is =>
  (value) =>
    typeof value === 'object' && value !== null && missing(fields, value as Fields) === null;

const absentOr =
  (is: Is): Is =>
  (value) =>
    value === undefined || is(value);

/** What each type of a part has. */
const PARTS: Record<string, Is> = {
  image: object({ media_type: text, data: text }),
  tool_call: object({ id: text, name: text, arguments: text }),
  tool_result: object({ id: text, text }),
};
const part: Is = (value) => {
  if (!object({ type: text })(value)) return false;
  const { type } = value as { type: string };
  const is = Object.hasOwn(PARTS, type) ? PARTS[type] : object({ text });
  return is?.(value) === true && Object.values(value as Fields).every((field) => !isNested(field));
};
const isNested: Is = (value) => typeof value === 'object';
const message = object({ role: text, content: listOf(part) });
const request = object({
  provider: text,
  model: text,
  cloud: flag,
  messages: listOf(message),
  tools: absentOr(listOf(object({ name: text }))),
});
const error = object({ code: text, message: text, retryable: flag, param: absentOr(text) });
const usage = object({ input_tokens: orNull(number), output_tokens: orNull(number) });

/** The type of each field, in all events. */
const FIELDS: Record<string, Is> = {
  ...{
    run_id: text,
    request,
    error,
    usage,
    text,
    token_ids: numbers,
    finish_reason: text,
    deadline: text,
    reason: text,
    by: text,
    client: text,
    traceparent: text,
    kind: text,
    call: object({ id: text, name: text }),
  },
  ...{
    idempotency_key: orNull(text),
    request_digest: orNull(text),
    recovery: text,
    content: text,
    resumable: flag,
    resumes: flag,
    forced: flag,
  },
  ...{
    attempt: number,
    offset: number,
    threads: number,
    computing: number,
    chars: number,
    retry_at: number,
    downtime_ms: number,
  },
  ...{ max_attempts: number, max_losses: number, queue_deadline_at: number, deadline_at: number },
  ...{ first_output_ms: number, idle_ms: number, cancel_grace_ms: number },
};

const BOUNDS = [
  'max_attempts',
  'queue_deadline_at',
  'deadline_at',
  'first_output_ms',
  'idle_ms',
  'cancel_grace_ms',
];

/** The fields that an event must have. */
const NEEDED: Record<string, readonly string[]> = {
  'run.accepted': ['run_id', 'request', 'client', 'idempotency_key', ...BOUNDS],
  'run.started': ['attempt'],
  'run.output_appended': ['attempt', 'text', 'token_ids'],
  'run.completed': ['attempt', 'finish_reason', 'usage'],
  'run.attempt_failed': ['attempt', 'error', 'retry_at'],
  'run.failed': ['attempt', 'error'],
  'run.suspended': ['attempt', 'error'],
  'run.recovered': ['downtime_ms'],
  'run.interrupted': ['error'],
  'run.deadline_passed': ['deadline'],
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
  const needed = Object.fromEntries(
    (NEEDED[type] ?? []).map((name) => [name, FIELDS[name] ?? text]),
  );
  const present = Object.fromEntries(
    Object.entries(FIELDS).filter(([name]) => data[name] !== undefined),
  );
  const wrong = missing({ ...needed, ...present }, data);
  return wrong === null ? null : `(${type}) has no right ${wrong}`;
}

/** The first wrong field. */
function missing(fields: Record<string, Is>, value: Fields): string | null {
  return Object.entries(fields).find(([name, is]) => !is(value[name]))?.[0] ?? null;
}
