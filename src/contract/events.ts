import * as v from 'valibot';
import type {
  CallName,
  MediaPart,
  Message,
  MessagePart,
  Opaque,
  OutputKind,
  TokenLogprob,
} from './messages/parts.ts';
import { type AnswerOptions, type Options, optionRows } from './options.ts';
import { completion, type FinishReason } from './run.ts';
import { type RunEventType, runEvents } from './run-events.ts';
import type { RECOVERIES } from './words.ts';

/**
 * The schemas and types of a run's events, made of the rows in `run-events.ts`.
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
const nullOr = <S extends v.GenericSchema>(schema: S) => v.nullable(schema);
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

/** Of what the fields of an event are made. */
const eventFields = {
  text,
  flag,
  number,
  word,
  unread,
  absentOr,
  list,
  nullOr,
  request,
  price,
  target,
  failure,
  usage,
  file,
  output,
  completed,
};
export type EventFields = typeof eventFields;

type Schemas = {
  [T in RunEventType]: v.ObjectSchema<ReturnType<(typeof runEvents)[T]['fields']>, undefined>;
};
/** By the type of the event. */
export const runEventSchemas = Object.fromEntries(
  Object.entries(runEvents).map(([type, { fields }]) => [type, v.object(fields(eventFields))]),
) as unknown as Schemas;

export type DeadlineName = 'queue' | 'total' | 'first_output' | 'idle';

export type EventOf<T extends string, D = unknown> = {
  readonly type: T;
  readonly at: number;
} & Readonly<D>;

type Events = { [T in RunEventType]: EventOf<T, v.InferOutput<Schemas[T]>> };
export type RunCreated = Events['run.accepted'];
export type RunEvent = Events[Exclude<RunEventType, 'run.accepted'>];

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
  const { issues } = v.safeParse(runEventSchemas[type as RunEventType], data, { abortEarly: true });
  return issues === undefined ? null : `(${type}) has no right ${issues[0].path?.[0]?.key}`;
}
