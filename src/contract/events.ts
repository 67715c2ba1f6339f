import * as v from 'valibot';
import type {
  CallName,
  MediaPart,
  Message,
  MessagePart,
  Opaque,
  OutputKind,
  SourceRequest,
  TokenLogprob,
} from './messages/parts.ts';
import { type AnswerOptions, type Options, optionRows } from './options.ts';
import { completion, type FinishReason } from './run.ts';
import type { RECOVERIES, ToolPolicy } from './words.ts';

/**
 * The fields of a run's events: the types of the machine are made of these schemas.
 *
 * Our own log is not checked. A file of a run is, so that nothing breaks its fold and its messages.
 * Fields that a schema does not have are accepted: another version may have recorded them.
 */

const text = v.string();
const flag = v.boolean();
const number = v.pipe(
  v.number(),
  v.check((value) => Math.abs(value) <= LATEST),
);
/** The last moment of a JavaScript date. */
const LATEST = 8.64e15;

/** Any text is accepted. svc records these ones. */
const word = <T extends string>() => text as unknown as v.GenericSchema<T>;
/** No fold and no message reads the field, so any value is accepted. svc records these ones. */
const unread = <T>() => v.optional(v.any()) as unknown as v.GenericSchema<T>;
/** The same of fields that a record has too. */
const unreadAll = <E extends v.ObjectEntries>(entries: E) =>
  Object.fromEntries(Object.keys(entries).map((name) => [name, v.optional(v.any())])) as E;
const absentOr = <S extends v.GenericSchema>(schema: S) => v.exactOptional(schema);
const list = <S extends v.GenericSchema>(item: S) =>
  v.array(item) as unknown as v.GenericSchema<readonly v.InferOutput<S>[]>;

/** The texts that a part has, by its type. A part of an unknown type counts as a text. */
const TEXTS: Readonly<Record<MessagePart['type'], readonly string[]>> = {
  text: ['text'],
  image: ['media_type', 'data'],
  audio: ['media_type', 'data'],
  reasoning: ['text'],
  refusal: ['text'],
  tool_call: ['id', 'name', 'arguments'],
  tool_result: ['id', 'text'],
};
/** What a provider must get back with a part: see `Opaque`. */
const opaque = v.object({
  form: text,
  data: text,
  provider: absentOr(text),
  model: absentOr(text),
}) satisfies v.GenericSchema<unknown, Opaque>;

const part = v.custom<MessagePart>((value) => {
  const fields = (value ?? {}) as Record<string, unknown>;
  const { type } = fields;
  if (typeof type !== 'string') return false;
  const texts = Object.hasOwn(TEXTS, type) ? TEXTS[type as MessagePart['type']] : TEXTS.text;
  return (
    texts.every((name) => typeof fields[name] === 'string') &&
    !Object.entries(fields).some(
      ([name, field]) => typeof field === 'object' && !(name === 'opaque' && v.is(opaque, field)),
    )
  );
});

const file = v.custom<MediaPart>(
  (value) => v.is(part, value) && ['image', 'audio'].includes(value.type),
);

const message = v.object({ role: text, content: list(part) });
const tool = v.object({ name: text });

type OptionEntries = {
  [N in keyof AnswerOptions]-?: v.ExactOptionalSchema<v.GenericSchema<Options[N]>, undefined>;
};
const optionEntries = {
  ...Object.fromEntries(optionRows.map(([name]) => [name, absentOr(unread())])),
  tools: absentOr(list(tool)),
} as unknown as OptionEntries;

const request = v.object({
  provider: text,
  model: text,
  /** True when the prompt leaves this machine. */
  cloud: flag,
  /** The conversation so far. The answer continues it. Empty if the log omits it. */
  messages: list(message) as unknown as v.GenericSchema<readonly Message[]>,
  ...optionEntries,
  max_tokens: unread<number | null>(),
  temperature: unread<number | null>(),
  /** Every run has a seed, so it can be repeated. */
  seed: unread<number>(),
  /** Whether the client chose the seed. Only such a seed is sent to remote APIs. */
  seed_asked: unread<boolean>(),
});
export type RunRequest = v.InferOutput<typeof request>;

/** The cost of a million tokens. */
export interface Price {
  readonly input: number;
  readonly output: number;
  /** Of input that the provider has in its cache, and that it writes into it. Absent: `input`. */
  readonly cached_input?: number;
  readonly cache_write?: number;
}

const price = v.object({
  input: number,
  output: number,
  cached_input: absentOr(number),
  cache_write: absentOr(number),
}) satisfies v.GenericSchema<unknown, Price>;

const target = v.object({
  provider: text,
  model: text,
  cloud: flag,
  resumable: absentOr(unread<boolean>()),
  price: absentOr(price),
});
/** A model of a provider that may answer a run. */
export type Target = Readonly<v.InferOutput<typeof target>>;

export const failure = v.object({
  code: text,
  message: text,
  retryable: flag,
  /** The field of the request that is the cause, such as `messages.0.content.1`. */
  param: absentOr(unread<string>()),
  /** How long after this event the provider may be called again. */
  retry_after_ms: absentOr(number),
  /** HTTP status of the provider's response, where the answer to a client keeps it. */
  status: absentOr(number),
  /** What to do about it, if the table of errors says something else. */
  hint: absentOr(text),
});
/** An error as an event records it: a code of the error table, and a message for the user. */
export type Failure = v.InferOutput<typeof failure>;

const { finish_reason: _, usage: recorded, ...end } = completion;
/** A provider may count otherwise than in whole numbers. */
const usage = v.object(
  Object.fromEntries(
    Object.entries(recorded.entries).map(([name, { type }]) => [
      name,
      type === 'nullable' ? v.nullable(number) : absentOr(number),
    ]),
  ) as unknown as typeof recorded.entries,
);
export type Usage = v.InferOutput<typeof usage>;

/**
 * What happens to a run that loses its work, because the daemon or the engine died or stopped.
 * `resume`: it continues after its last recorded token if its provider can. Without output it
 * starts again, otherwise it ends. `restart`: it starts again, and its output is discarded. `end`:
 * it ends, and keeps its output.
 */
export type Recovery = (typeof RECOVERIES)[number];

/** One output of an attempt. */
export const output = v.object({
  attempt: number,
  /** A piece of the answer, or of the arguments of a tool call. */
  text,
  token_ids: v.array(number),
  /** Absent: text of the answer. */
  kind: absentOr(word<OutputKind>()),
  /** The tool call that the piece belongs to. */
  call: absentOr(
    v.object({ id: text, name: text, server: absentOr(text) }) satisfies v.GenericSchema<
      unknown,
      CallName
    >,
  ),
  logprobs: absentOr(unread<readonly TokenLogprob[]>()),
  /** What the provider must get back with the part that the piece ends. */
  opaque: absentOr(opaque),
  /** Where the text begins in its part, if the log omits the text itself. */
  offset: absentOr(number),
  /** The index of that part among all parts. Absent for text of the answer. */
  part: absentOr(unread<number>()),
  /** The threads that compute from here on, if their number is known and changed. */
  threads: absentOr(number),
  /** From here on the answer depends on other runs, which were computed with it. */
  batched: absentOr(flag),
  /** The file of the model that answers from here on, if it is known and changed. */
  model_file: absentOr(text),
  /**
   * How the prompt was computed: tokens in batches, tokens one by one, and so on. Absent: in
   * batches from its beginning.
   */
  prompt_parts: absentOr(list(number)),
});
export type RunOutput = v.InferOutput<typeof output>;

/** How a complete answer ended. */
export const completed = v.object({
  finish_reason: word<FinishReason>(),
  usage,
  ...unreadAll(end),
});
export type Completion = v.InferOutput<typeof completed>;

const events = {
  'run.accepted': v.object({
    run_id: text,
    /** Its provider, model and cloud are the first target. */
    request,
    /** What the first target costs. Absent: it has no price. */
    price: absentOr(price),
    /** The client, for the fair queue. */
    client: text,
    idempotency_key: v.nullable(text),
    /** SHA-256 of the request, so a key cannot be reused for another request. */
    request_digest: absentOr(v.nullable(text)),
    /** Names the span of the client that asked, in the form of the W3C. */
    traceparent: absentOr(text),
    /** Name of the token that the request was sent with. Absent: the token of the home. */
    asked_by: absentOr(unread<string>()),
    /** How an application asked: what its API needs to describe the run later. */
    asked_as: absentOr(unread<SourceRequest>()),
    /** The client's own labels. */
    metadata: absentOr(unread<Readonly<Record<string, string>>>()),
    /** The first run of its conversation. Absent: it is the first one itself. */
    conversation: absentOr(text),
    /** The run whose answer it follows. Its messages begin with those of that run. */
    continues: absentOr(text),
    /** Names of the other tokens that asked turns whose texts it repeats. */
    turns_of: absentOr(unread<readonly string[]>()),
    /** Where the client was, such as a folder. */
    origin: absentOr(text),
    recovery: absentOr(word<Recovery>()),
    /** The model is called once more if its answer does not have the requested form. */
    ask_again: absentOr(flag),
    /** Its provider can continue from recorded tokens. */
    resumable: absentOr(flag),
    /** `omitted`: the log lacks the prompt, so only the current process can answer it. */
    content: absentOr(word<'omitted'>()),
    /** The targets after the first one, in their order. */
    fallbacks: absentOr(list(target)),
    max_attempts: number,
    /**
     * Attempts at a target that another one follows. Logs without it are older than
     * `run.sent_to_cloud`.
     */
    target_attempts: absentOr(number),
    /** How often the run may lose its work without new text in between. */
    max_losses: absentOr(number),
    queue_deadline_at: number,
    deadline_at: number,
    /** Longest wait for the first output of an attempt, including the load of the model. */
    first_output_ms: number,
    /** Longest silence between two outputs. */
    idle_ms: number,
    /** Longest wait for the work to stop after a cancel. */
    cancel_grace_ms: number,
  }),
  /**
   * `resumes`: it continues after the recorded output. Otherwise that output is discarded. `turn`:
   * how many turns of the model are complete.
   */
  'run.started': v.object({ attempt: number, resumes: absentOr(flag), turn: absentOr(number) }),
  'run.output_appended': output,
  'run.completed': v.object({ attempt: number, ...completed.entries }),
  /** A turn of the model is complete, and svc carries out the tools that it calls. */
  'run.turn_completed': v.object({ attempt: number, usage }),
  /** The answer does not have the requested form. It becomes a turn, and one more follows. */
  'run.asked_again': v.object({ attempt: number, usage, form_problem: absentOr(text) }),
  /** svc knows the tool. `approve_until`: when a call that waits for an approval is denied. */
  'run.tool_requested': v.object({
    call: number,
    server: text,
    tool: text,
    arguments: text,
    approval: word<ToolPolicy>(),
    approve_until: absentOr(number),
    repeatable: absentOr(flag),
    /** Of the tool as it was. A person allows this one, and no other. */
    digest: absentOr(text),
    /** The description of the tool, if a person decides. */
    description: absentOr(text),
  }),
  /** `by`: the configuration (`policy`), or who decided. */
  'run.tool_allowed': v.object({ call: number, by: text }),
  'run.tool_denied': v.object({ call: number, by: text, reason: text }),
  /** The call may begin now: this is recorded before the server hears of it. */
  'run.tool_started': v.object({ call: number, time_limit_at: number }),
  /** The last words of its server about a call that works, with its progress. */
  'run.tool_reported': v.object({ call: number, text }),
  /** `media`: files of the result. The text has a line for each. */
  'run.tool_finished': v.object({
    call: number,
    text,
    is_error: flag,
    media: absentOr(list(file)),
  }),
  /** The result of a call that was started cannot come any more. */
  'run.tool_lost': v.object({ call: number, error: failure }),
  /**
   * A person decides about a lost call. `result`: `text` is its result. `skip`: it has no result.
   */
  'run.tool_decided': v.object({
    call: number,
    decision: word<'repeat' | 'result' | 'skip'>(),
    by: text,
    text: absentOr(text),
  }),
  /** `next`: the run moves to this target. Otherwise it retries the present one. */
  'run.attempt_failed': v.object({
    attempt: number,
    error: failure,
    retry_at: number,
    next: absentOr(target),
  }),
  /** The prompt leaves this machine. It is recorded before the first byte leaves. */
  'run.sent_to_cloud': v.object({ attempt: number, provider: text, model: text, bytes: number }),
  'run.failed': v.object({ attempt: number, error: failure }),
  /**
   * The work was lost or stopped before the answer was complete, and the run waits to resume.
   * `computing`: how many runs the engine computed when it died, including this one. 0: it computed
   * none of them, as while it loads, or was stopped for another reason. Absent: no engine died, or
   * the log is old.
   */
  'run.suspended': v.object({ attempt: number, error: failure, computing: absentOr(number) }),
  /** Found unfinished by a later boot. The time between the boots counts for no deadline. */
  'run.recovered': v.object({ downtime_ms: number }),
  'run.cancel_requested': v.object({ by: text }),
  'run.deadline_passed': v.object({ deadline: word<DeadlineName>(), error: absentOr(failure) }),
  'run.interrupt_requested': v.object({ reason: text }),
  'run.cancelled': v.object({ forced: flag }),
  'run.timed_out': v.object({ forced: flag }),
  'run.interrupted': v.object({ error: failure }),
};
export type DeadlineName = 'queue' | 'total' | 'first_output' | 'idle';

export type EventOf<T extends string, D = unknown> = {
  readonly type: T;
  readonly at: number;
} & Readonly<D>;

type Events = {
  [T in keyof typeof events]: EventOf<T, v.InferOutput<(typeof events)[T]>>;
};
export type RunCreated = Events['run.accepted'];
export type RunEvent = Events[Exclude<keyof Events, 'run.accepted'>];

/** What is wrong with an event of a file, as the end of a sentence; null when nothing is. */
export function checkRunEvent(
  type: string,
  data: Readonly<Record<string, unknown>>,
  isFirst: boolean,
  run_id: string,
): string | null {
  if (isFirst !== (type === 'run.accepted'))
    return isFirst ? 'is not the acceptance of the run' : 'accepts the run again';
  if (isFirst && data.run_id !== run_id) return 'is of another run';
  const { issues } = v.safeParse(events[type as keyof Events], data, { abortEarly: true });
  return issues === undefined ? null : `(${type}) has no right ${issues[0].path?.[0]?.key}`;
}
