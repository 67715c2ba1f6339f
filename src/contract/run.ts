import * as v from 'valibot';
import { limitSpecs } from '../limits.ts';
import { answerPart, message, recordedMessage } from './messages/messages.ts';
import { optionEntries, recordedOptions } from './option-schemas.ts';
import { errorBody, orNull } from './records.ts';
import {
  flag,
  large,
  name,
  named,
  nonEmptyList,
  object,
  oneOf,
  text,
  time,
  whole,
  wholeFrom,
} from './vocabulary.ts';
import { RECOVERIES, RUN_STATES } from './words.ts';

/**
 * A run: its request, and its record as users see it. Each field is declared here alone, with its
 * number in `runtime.proto`. `npm run docs` writes both messages of that file.
 */

/** A field of a message: its number, which never changes, its schema, and what the message says. */
type Field = readonly [number: number, schema: v.GenericSchema, note?: string];
type Entries<F> = { [K in keyof F]: F[K] extends readonly unknown[] ? F[K][1] : F[K] };

/** The messages of `runtime.proto` that are written from these schemas. */
export const messages: Record<'RunRequest' | 'RunRecord', Record<string, Field>> = {
  RunRequest: {},
  RunRecord: {},
};

/** The entries of an object. A field without a number is in no message. */
function fields<const F extends Record<string, Field | v.GenericSchema>>(
  to: keyof typeof messages,
  rows: F,
): Entries<F> {
  const entries = Object.entries(rows).map(([name, row]) => {
    if (!isField(row)) return [name, row];
    messages[to][name] = row;
    return [name, row[1]];
  });
  return Object.fromEntries(entries) as Entries<F>;
}

function isField(row: Field | v.GenericSchema): row is Field {
  return Array.isArray(row);
}

/** Longest name of a client, in characters. */
export const CLIENT_MAX = 64;
/** Longest path of a folder, in characters. */
export const ORIGIN_MAX = 4096;
/** Most labels of a run. */
const LABELS_MAX = 16;
/** Most targets of one run, also after its aliases are replaced. */
export const TARGETS_MAX = 8;

const key = v.pipe(
  text,
  v.regex(/^[\x21-\x7e]{1,255}$/, 'must be 1 to 255 visible ASCII characters.'),
);
const labels = v.pipe(
  v.record(name(64), v.pipe(text, v.maxLength(512, 'must have at most 512 characters.'))),
  v.check(
    (labels) => Object.keys(labels).length <= LABELS_MAX,
    `must have at most ${LABELS_MAX} labels.`,
  ),
);
/** Several names are targets: the next one is called when one cannot answer. */
const models = v.union([
  name(),
  v.pipe(
    v.array(name(), 'must be a name or a list of names.'),
    v.minLength(1, 'must name at least one model.'),
    v.maxLength(TARGETS_MAX, `must name at most ${TARGETS_MAX} models.`),
  ),
]);
const conversation = nonEmptyList(
  message,
  'must be a list of messages.',
  'must have at least one message.',
);

/** What a request holds. A field that is null counts as not given. */
export const runInput = named(
  'RunInput',
  object({
    ...fields('RunRequest', {
      prompt: [1, v.nullish(text), 'The short form: one message of the user.'],
      system: [2, v.nullish(text), 'The short form: a system message before it.'],
      messages: [
        3,
        v.nullish(conversation),
        'The long form: a conversation. The answer continues it.',
      ],
    }),
    ...optionEntries,
    ...fields('RunRequest', {
      provider: [8, v.nullish(name()), 'Absent: the default provider, and its default model.'],
      model: [9, v.nullish(models)],
      cloud: [10, v.nullish(flag), 'Use the configured cloud provider.'],
      timeout_ms: [
        18,
        v.nullish(wholeFrom(1, limitSpecs.run_ms.max)),
        'Milliseconds for the whole run. The deadline of the call bounds it too.',
      ],
      idempotency_key: [
        19,
        v.nullish(key),
        'The same key and request give the same run, also after a restart.',
      ],
      recovery: [
        20,
        v.nullish(oneOf(RECOVERIES)),
        'What happens to the run when it is cut off: `resume`, `restart` or `end`.',
      ],
      ask_again: [
        52,
        v.nullish(flag),
        'Call the model once more if its answer does not have the requested form. What ' +
          'it said first is a turn then, and no part of the answer.',
      ],
      client: [
        21,
        v.nullish(name(CLIENT_MAX)),
        "The client's name for fair queueing. Absent: its user agent.",
      ],
      metadata: [22, v.nullish(labels), "The client's own labels."],
      conversation: [
        31,
        v.nullish(name()),
        'A conversation to continue: any of its runs, or `last`, the last one of this origin.',
      ],
      continues: [
        32,
        v.nullish(name()),
        'The run of that conversation to follow. Absent: the newest one with an answer.',
      ],
      origin: [33, v.nullish(name(ORIGIN_MAX)), 'Where the client is, such as a folder.'],
      tool_servers: [
        60,
        v.nullish(v.array(name(200), 'must be a list of names.')),
        'Tool servers, or tools as `server/tool`, whose calls svc carries out.',
      ],
      /** The transport cancels the run when the client that started it disconnects. */
      cancel_on_disconnect: v.nullish(flag),
    }),
  }),
);
export type RunInput = v.InferOutput<typeof runInput>;

/** Among the tools, `mcp:<server>` and `mcp:<server>/<tool>` mean `tool_servers`. */
export function withToolServers(value: unknown): unknown {
  const { tools, tool_servers, ...rest } = (value ?? {}) as Record<string, unknown>;
  const isServer = (tool: unknown) => typeof tool === 'string' && tool.startsWith('mcp:');
  if (!Array.isArray(tools) || !tools.some(isServer)) return value;
  const names = tools.filter(isServer).map((tool: string) => tool.slice('mcp:'.length));
  const more = Array.isArray(tool_servers) ? tool_servers : [];
  return {
    ...rest,
    tools: tools.filter((tool) => !isServer(tool)),
    tool_servers: [...more, ...names],
  };
}

/** The tool servers that a request names, and the rest of it. */
export function splitServers<I extends Pick<RunInput, 'tool_servers'>>(input: I) {
  const { tool_servers, ...rest } = input;
  return { servers: tool_servers ?? [], rest };
}

export const usage = object({
  input_tokens: orNull(whole),
  output_tokens: orNull(whole),
  /** Input tokens that the provider had in its cache. */
  cached_tokens: v.exactOptional(whole),
  /** Input tokens that it wrote into its cache. */
  cache_write_tokens: v.exactOptional(whole),
  /** Output tokens of the reasoning. */
  reasoning_tokens: v.exactOptional(whole),
  /** Output tokens that the engine guessed before it computed them, wrong ones too. */
  drafted_tokens: v.exactOptional(whole),
  /** How many of them were right. */
  accepted_tokens: v.exactOptional(whole),
});
/**
 * `repetition`: it repeated itself, and was ended before its longest length. `not_json`: it was to
 * be JSON, and is not. `wrong_form`: it does not fit the requested form.
 */
const REASONS = [
  ...(['stop', 'length', 'repetition', 'content_filter'] as const),
  ...(['tool_calls', 'not_json', 'wrong_form', 'other'] as const),
] as const;
const finish_reason = oneOf(REASONS);
export type FinishReason = v.InferOutput<typeof finish_reason>;

/** How a complete answer ended. The event and the record of the run have it. */
export const completion = fields('RunRecord', {
  finish_reason: [14, orNull(finish_reason)],
  stop_sequence: [15, v.exactOptional(text), 'The text of `stop` that ended the answer.'],
  load_ms: [
    40,
    v.exactOptional(large),
    'How long the answer waited for its model to be in memory. Absent: it did not.',
  ],
  tokens_per_second: [
    65,
    v.exactOptional(v.number()),
    'Speed of the answer, by the times of its engine if it says them. Absent: unknown.',
  ],
  tool_form: [
    51,
    v.exactOptional(oneOf(['generic'])),
    'The template of the model has no tools, so svc wrote them as a text. Absent: it has.',
  ],
  form: [
    68,
    v.exactOptional(oneOf(['kept', 'compared'])),
    'The answer has the requested form: by the grammar that wrote it, or as compared.',
  ],
  form_problem: [69, v.exactOptional(text), 'Why the answer does not have that form.'],
  usage: [16, usage],
});

const attemptFields = { attempt: whole, provider: text, model: text, at: time };
export const failedAttempt = object({ ...attemptFields, code: text, message: text });
/** `bytes`: of messages, tools and format. Null: the log is older than this record. */
export const sentToCloud = object({ ...attemptFields, bytes: orNull(whole) });

/** A call that svc carries out. `state`: as in the picture of its machine. */
export const recordedCall = object({
  call: whole,
  id: text,
  server: orNull(text),
  tool: orNull(text),
  name: text,
  arguments: text,
  state: text,
  /** Who allowed or denied it. */
  decided_by: orNull(text),
  requested_at: orNull(time),
  started_at: orNull(time),
  ended_at: orNull(time),
  /** The last words of its server while it worked. */
  report: v.exactOptional(text),
  /** The result that the model got. */
  result: orNull(text),
  is_error: flag,
});

export const run = named(
  'Run',
  object({
    ...fields('RunRecord', {
      id: [1, text],
      state: [2, oneOf(RUN_STATES)],
      provider: [3, text],
      model: [4, text],
      cloud: [5, flag, 'True when the prompt leaves this machine.'],
      prompt: [6, text, 'The text of the last message of the user.'],
      system: [7, orNull(text)],
      messages: [
        8,
        v.exactOptional(v.array(recordedMessage)),
        'The conversation. Empty when prompt and system say it all.',
      ],
    }),
    ...recordedOptions,
    ...fields('RunRecord', {
      output: [12, text],
      output_parts: [
        13,
        v.exactOptional(v.array(answerPart)),
        'The parts of the answer. Empty when it is only text.',
      ],
    }),
    ...completion,
    ...fields('RunRecord', {
      turns: [
        61,
        v.exactOptional(v.array(recordedMessage)),
        'What the model and the tools said before the answer, in a run whose tools svc calls.',
      ],
      tool_calls: [
        62,
        v.exactOptional(v.array(recordedCall)),
        'The calls of tools that svc carries out.',
      ],
      waited_ms: [
        63,
        v.exactOptional(whole),
        'How long it waited for persons, before the present wait.',
      ],
      waits_since: [64, v.exactOptional(time), 'Since when it waits for a person.'],
      queue_position: [17, orNull(whole), '1 starts next. Absent: the run is not queued.'],
      attempts: [18, whole],
      failed_attempts: [
        37,
        v.exactOptional(v.array(failedAttempt)),
        'Attempts that failed while the run continued.',
      ],
      fallbacks: [
        38,
        v.exactOptional(v.array(text)),
        'The targets that are left, as `provider/model`.',
      ],
      sent_to_cloud: [
        39,
        v.exactOptional(v.array(sentToCloud)),
        'Each time that the prompt left this machine.',
      ],
      opaque_parts: [
        66,
        v.exactOptional(whole),
        'Parts that only this provider and model can read, and gets back.',
      ],
      opaque_left_out: [
        67,
        v.exactOptional(whole),
        'Such parts of other providers and models, which this one does not get.',
      ],
      created_at: [19, time],
      started_at: [20, orNull(time)],
      first_output_at: [21, orNull(time)],
      ended_at: [22, orNull(time)],
      error: [23, orNull(errorBody)],
      idempotency_key: [24, orNull(text)],
      client: [25, text],
      asked_by: [
        26,
        v.exactOptional(text),
        'Name of the token that the request was sent with. Absent: the token of the home.',
      ],
      asked_as: [
        27,
        v.exactOptional(text),
        "The API of the request, such as `openai.chat`. Absent: svc's own.",
      ],
      metadata: [28, v.exactOptional(v.record(text, text))],
      conversation: [
        41,
        v.exactOptional(text),
        'The first run of its conversation. Absent in records of older versions.',
      ],
      continues: [42, v.exactOptional(text), 'The run whose answer it follows.'],
      turns_of: [
        46,
        v.exactOptional(v.array(text)),
        'Names of the other tokens that asked turns whose texts it repeats.',
      ],
      origin: [43, v.exactOptional(text), 'Where the client was, such as a folder.'],
      recovery: [29, oneOf(RECOVERIES)],
      ask_again: [
        74,
        v.exactOptional(v.literal(true)),
        'The model is called once more if its answer does not have the requested form.',
      ],
      seq: [30, large, 'Position of its last event in the log.'],
    }),
  }),
);
/** A run as users see it. */
export type RunRecord = v.InferOutput<typeof run>;

export const shortenedRun = object({
  ...run.entries,
  ...fields('RunRecord', {
    shortened: [
      31,
      v.exactOptional(v.literal(true)),
      'True when a page has only the beginning of its texts.',
    ],
  }),
});

export const runPage = named(
  'RunPage',
  object({
    runs: v.array(shortenedRun),
    /** Pass as `before` for the next page. It is null on the last page. */
    next: orNull(text),
    /** Runs of this page that cannot be read. */
    damaged: v.exactOptional(v.array(object({ id: text, message: text }))),
  }),
);
export type RunPage = v.InferOutput<typeof runPage>;

export const removedRun = named(
  'RemovedRun',
  object({
    removed: text,
    /** Why its texts may still be in the log, in sentences. */
    trouble: v.exactOptional(text),
  }),
);

export const searchPage = named(
  'SearchPage',
  object({
    ...runPage.entries,
    /** Finished runs with the words, newest first. */
    runs: v.array(
      object({
        id: text,
        state: oneOf(RUN_STATES),
        provider: text,
        model: text,
        /** The first run of its conversation. */
        conversation: text,
        created_at: time,
        /** Some words of its prompt or its answer, around the first match. */
        snippet: text,
        /** Where the matches are in the snippet: begin and end, in UTF-16 units. */
        matches: v.array(v.tuple([whole, whole])),
      }),
    ),
    /**
     * How many runs are not searched yet: their index is being built. Of more than 2,000 it is an
     * estimate.
     */
    unindexed: v.exactOptional(whole),
  }),
);
export type SearchPage = v.InferOutput<typeof searchPage>;
