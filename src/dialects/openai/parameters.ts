import * as v from 'valibot';
import { adapterSpec } from '../../config/providers/adapters.ts';
import { invalidRequest } from '../../contract/check.ts';
import type { RunInput, RunRecord } from '../../contract/contract.ts';
import type { EmbedText } from '../../contract/embed-input.ts';
import type { ResponseFormat } from '../../contract/messages/parts.ts';
import { type Options, optionsWith, options as table } from '../../contract/options.ts';
import { runInput } from '../../contract/run.ts';
import * as vocabulary from '../../contract/vocabulary.ts';
import {
  anything,
  count,
  flag,
  listWithout,
  name,
  named,
  object,
  oneOf,
  pick,
  text,
  wholeCapped,
  wholeFrom,
} from '../../contract/vocabulary.ts';
import { isRecord, parseForeignJson } from '../../json.ts';
import type { Context } from '../../transport/http/route.ts';

/** Parameters that several requests of OpenAI share. */

/** A parameter that svc gives only one value, and why. */
export function fixedValues<const T extends readonly unknown[]>(values: T, why: string) {
  const shown = values.map((value) => JSON.stringify(value)).join(' or ');
  return vocabulary.oneOfOrNull(values, `must be ${shown}: ${why}`);
}

const { metadata, stop, reasoning_effort, verbosity, logprobs } = runInput.entries;

/** The options that have the same name and meaning. Some are of neighbours that speak this API. */
export const SAMPLING = optionsWith('openai', true);

/** Most answers to one request. */
const CHOICES_MAX = 8;
/** As llama-server and LM Studio have it: the answer ends by itself, or with the context. */
const UNBOUNDED = -1;

/** The longest answer, as a run has it. */
export function lengthOf(max_tokens: number | null | undefined): number | undefined {
  return max_tokens === UNBOUNDED ? table.max_tokens.max : (max_tokens ?? undefined);
}

/** A length of an answer, with the shortest one that the API takes. */
export function length(min: number) {
  const { max } = table.max_tokens;
  return v.nullish(
    v.union(
      [v.literal(UNBOUNDED), wholeCapped(min, max)],
      `must be a whole number from ${min}, or -1: no bound but the context.`,
    ),
  );
}

/** All but `max_tokens`, which some APIs name otherwise. */
export const SAMPLING_ALONE = SAMPLING.filter((name) => name !== 'max_tokens');

/** Ids of tokens are of the tokenizer of one model. */
export const tokens = vocabulary.withEarlyAbort(
  vocabulary.nonEmptyList(
    count,
    'must be a list of ids of tokens.',
    'must have at least one token.',
  ),
);

/** The texts of a request, which has one or several. */
export function textsOf(input: EmbedText | readonly EmbedText[]): EmbedText[] {
  if (typeof input === 'string') return [input];
  return typeof input[0] === 'number' ? [input as number[]] : (input as EmbedText[]);
}

/** As llama-server has it. */
const llamaLora = v.pipe(
  v.array(object({ id: count, scale: v.number() })),
  v.transform((list) => Object.fromEntries(list.map(({ id, scale }) => [String(id), scale]))),
  v.unwrap(runInput.entries.lora),
);

/** These fields mean the same for svc. */
export const sampling = {
  model: v.nullish(name()),
  ...pick(runInput.entries, SAMPLING),
  max_tokens: length(1),
  lora: v.nullish(v.union([v.unwrap(runInput.entries.lora), llamaLora])),
  /** One text or a list. */
  stop: v.nullish(v.union([text, v.unwrap(stop)], 'must be a text, or a list of texts.')),
  /** OpenAI takes any 64-bit number. */
  seed: v.nullish(wholeFrom(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)),
  metadata,
  stream: v.nullish(flag),
  stream_options: v.nullish(
    object({ include_usage: v.nullish(flag), include_obfuscation: v.nullish(flag) }),
  ),
  n: v.nullish(wholeFrom(1, CHOICES_MAX)),
};

/** The efforts of a run. `default` leaves it to the model. */
export const effort = v.nullish(oneOf([...v.unwrap(reasoning_effort).options, 'default']));

const budget = v.nullish(
  v.union(
    [v.literal(UNBOUNDED), v.unwrap(runInput.entries.reasoning_budget_tokens)],
    `must be a whole number from 0 to ${table.reasoning_budget_tokens.max}, or -1: no bound.`,
  ),
);
/** Most tokens of reasoning, as llama-server, vLLM and Qwen call them. */
export const budgets = {
  reasoning_budget_tokens: budget,
  thinking_budget_tokens: budget,
  thinking_token_budget: budget,
  thinking_budget: budget,
};
/** The same in an object, as OpenRouter has it. */
export const reasoning = { effort, max_tokens: budget };

type Budgets = v.InferOutput<v.ObjectSchema<typeof budgets, undefined>>;
const BUDGETS = Object.keys(budgets) as (keyof Budgets)[];

/** How much a request wants a model to reason. Throws invalid_request when two budgets differ. */
export function reasoningOf(
  asked: v.InferOutput<typeof effort>,
  sent: Budgets & { reasoning?: { max_tokens?: v.InferOutput<typeof budget> } | null | undefined },
): Pick<RunInput, 'reasoning_effort' | 'reasoning_budget_tokens'> {
  const all = { ...pick(sent, BUDGETS), 'reasoning.max_tokens': sent.reasoning?.max_tokens };
  const said = Object.entries(all).filter(([, tokens]) => tokens != null);
  const [name, tokens] = said[0] ?? [];
  const other = said.find(([, each]) => each !== tokens)?.[0];
  if (other !== undefined)
    throw invalidRequest(other, `${name} and ${other} differ. Send one of them.`);
  return {
    reasoning_effort: asked === 'default' ? null : asked,
    reasoning_budget_tokens: tokens === UNBOUNDED ? null : tokens,
  };
}

type Verbosity = Options['verbosity'] | null;
/** How much the answer says. `medium` is what any model does, so nothing is sent for it. */
export function verbosityOf(value: Verbosity | undefined): Verbosity {
  return value === 'medium' ? null : (value ?? null);
}

/** Names the verbosity as ignored if the provider of the run cannot be asked for it. */
export function tellVerbosity(
  { res, runtime }: Pick<Context, 'res' | 'runtime'>,
  { provider, verbosity }: Pick<RunRecord, 'provider' | 'verbosity'>,
  field: string,
): void {
  if (verbosity === undefined || res.headersSent) return;
  const { adapter = '' } = runtime.providers.list().find(({ id }) => id === provider) ?? {};
  if (adapterSpec(adapter)?.verbosity === true) return;
  const before = res.getHeader(IGNORED);
  res.setHeader(IGNORED, before === undefined ? field : `${before}, ${field}`);
}
const IGNORED = 'X-Svc-Ignored';

/** Beside `logprobs`, which is a switch here. */
export const topLogprobs = logprobs;

/** These fields have no effect on the answer, so any value is right. */
export const WITHOUT_EFFECT = {
  user: v.nullish(text),
  safety_identifier: v.nullish(text),
  prompt_cache_key: v.nullish(text),
  prompt_cache_retention: v.nullish(text),
  service_tier: v.nullish(text),
  /** svc keeps each run as its own history settings say. */
  store: v.nullish(flag),
  /** The field only makes an answer faster. */
  prediction: v.nullish(anything),
};

/** A seed in the range of svc. Equal seeds stay equal. */
export function seedOf(seed: number | null | undefined): number | undefined {
  return seed == null ? undefined : ((seed % SEEDS) + SEEDS) % SEEDS;
}
const SEEDS = 2 ** 32;

export function stopOf(stop: string | readonly string[] | null | undefined): string[] | undefined {
  if (stop == null) return undefined;
  return typeof stop === 'string' ? [stop] : [...stop];
}

/** Throws when two parameters that say the same differ. */
export function oneLength(
  max_tokens: number | null | undefined,
  max_completion_tokens: number | null | undefined,
): number | undefined {
  if (max_tokens != null && max_completion_tokens != null && max_tokens !== max_completion_tokens)
    throw invalidRequest(
      'max_tokens',
      'max_tokens and max_completion_tokens differ. Send one of them.',
    );
  return lengthOf(max_completion_tokens ?? max_tokens);
}

export { anything, flag, listWithout, name, named, object, oneOf, pick, text, verbosity };

/** svc keeps a model to a schema whenever its provider can, whatever `strict` says. */
const shared = { name: text, description: v.nullish(text), strict: v.nullish(flag) };
export const functionFields = { ...shared, parameters: v.nullish(anything) };
export const schemaFields = { ...shared, schema: v.nullish(anything) };

const noBound = v.nullish(v.never('must be null: svc does not know it.'));
const schemaOrText = v.nullish(
  v.union([anything, text], 'must be a JSON schema, or the text of one.'),
);
const { regex, choice, grammar } = runInput.entries;

/** The form of an answer in the fields of vLLM, SGLang and llama-server. */
export const constraints = {
  guided_json: schemaOrText,
  json_schema: schemaOrText,
  structured_outputs: v.nullish(
    object({
      json: schemaOrText,
      json_object: v.nullish(flag),
      regex,
      choice,
      grammar,
      structural_tag: noBound,
    }),
  ),
  guided_regex: regex,
  guided_choice: choice,
  guided_grammar: grammar,
  ebnf: grammar,
};
type Forms = Pick<RunInput, 'response_format' | 'regex' | 'choice' | 'grammar'>;
type Constraints = v.InferOutput<v.ObjectSchema<typeof constraints, undefined>> &
  Omit<Forms, 'response_format'>;

/** The one form that a request asks for. Throws invalid_request for a second one. */
export function oneForm(
  response_format: SentFormat | null | undefined,
  { structured_outputs, ...sent }: Constraints,
): Forms {
  const { json, json_object, ...others } = structured_outputs ?? {};
  const schemas = { guided_json: sent.guided_json, json_schema: sent.json_schema };
  const asked: [param: string, name: keyof Forms, value: unknown][] = [
    ['response_format', 'response_format', formatOf(response_format)],
    ...Object.entries({ ...schemas, 'structured_outputs.json': json }).map(
      ([param, schema]): (typeof asked)[number] => [
        param,
        'response_format',
        schemaFormat(schema, param),
      ],
    ),
    ['structured_outputs.json_object', 'response_format', json_object === true ? ANY_JSON : null],
    ...TEXT_FORMS.flatMap((name): typeof asked => [
      [name, name, sent[name]],
      [`guided_${name}`, name, sent[`guided_${name}`]],
      [`structured_outputs.${name}`, name, others[name]],
    ]),
    ['ebnf', 'grammar', sent.ebnf],
  ];
  const [first, second] = asked.filter(([, , value]) => value != null);
  if (first !== undefined && second !== undefined)
    throw invalidRequest(
      second[0],
      `${first[0]} and ${second[0]} both say the form. Send one of them.`,
    );
  const none = { response_format: null, regex: null, choice: null, grammar: null };
  return first === undefined ? none : { ...none, [first[1]]: first[2] };
}

const TEXT_FORMS = ['regex', 'choice', 'grammar'] as const;
const ANY_JSON = { type: 'json', name: null, schema: null } as const;

function schemaFormat(sent: unknown, param: string): ResponseFormat | null {
  if (sent == null) return null;
  const schema = typeof sent === 'string' ? parseForeignJson(sent) : sent;
  if (!isRecord(schema) || Array.isArray(schema))
    throw invalidRequest(param, `${param} must be a JSON schema, or the text of one.`);
  return { ...ANY_JSON, schema };
}

type SentFormat =
  | { type: 'text' | 'json_object' }
  | { type: 'json_schema'; name: string; schema?: ResponseFormat['schema'] | undefined };
/** The form of an answer, as the Responses API writes it. */
export function formatOf(sent: SentFormat | null | undefined): ResponseFormat | null {
  if (sent == null || sent.type === 'text') return null;
  const { name, schema = null } = sent.type === 'json_schema' ? sent : { name: null };
  return { type: 'json', name, schema };
}
