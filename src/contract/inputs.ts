import * as v from 'valibot';
import { SvcError } from '../errors.ts';
import { asRecord } from '../json.ts';
import { type Limits, limitSpecs } from '../limits.ts';
import {
  checkNesting,
  checkText,
  checkWithoutNull,
  invalidRequest,
  type WithoutNull,
} from './check.ts';
import { checkMessages } from './messages/messages.ts';
import { type RunInput, runInput, splitServers, withToolServers } from './run.ts';
import { count, flag, name, named, object, oneOf, text, wholeFrom } from './vocabulary.ts';
import { byFilter } from './words.ts';

/**
 * The fields of requests. Every transport takes the same ones. A null field counts as not given.
 */

/** Longest text of a search, in characters. */
export const WORDS_MAX = 1000;
/** In practice, for ever. */
const KEEP_MAX_MS = 1e15;

/** Throws invalid_request (with `param`), prompt_missing, prompt_not_text, prompt_too_large. */
export function parseRunInput(value: unknown, limits: InputLimits): WithoutNull<RunInput> {
  boundConversation(value, limits);
  return checkRunInput(checkWithoutNull(runInput, withToolServers(value)), limits);
}

export type InputLimits = ConversationLimits & Pick<Limits, 'prompt_bytes'>;

/** Checks what the schema cannot. Throws as parseRunInput does. */
export function checkRunInput(
  input: WithoutNull<RunInput>,
  limits: InputLimits,
): WithoutNull<RunInput> {
  const { messages, prompt = '', system } = input;
  if (messages === undefined && prompt.trim() === '')
    throw new SvcError('prompt_missing', 'The prompt is missing, or is empty.', {
      param: 'prompt',
      hint: 'Send a text in the field prompt, or a list in messages.',
    });
  if (messages !== undefined && (input.prompt ?? system) !== undefined)
    throw invalidRequest(
      'messages',
      'messages replaces prompt and system. Send one of the two forms.',
    );
  checkTools(input);
  checkSize(input, limits);
  // The messages of a turn may answer calls of the turn before: they are checked together.
  if (messages !== undefined && input.conversation === undefined) checkMessages(messages);
  return input;
}

/** What the schemas of tools and answers mean is checked when the run starts. */
function checkTools(input: WithoutNull<RunInput>): void {
  const { tools = [], tool_choice, response_format } = input;
  checkNesting([
    ...tools.map(({ parameters }, index) => [`tools.${index}.parameters`, parameters] as const),
    ['response_format.schema', response_format?.schema],
  ]);
  const forms = FORMS.filter((name) => input[name] !== undefined);
  const [first, second] = forms;
  if (first !== undefined && second !== undefined)
    throw invalidRequest(
      second,
      `${first} and ${second} both say the form of the answer. Send one of them.`,
    );
  const names = tools.map(({ name }) => name);
  const twice = firstTwice(names);
  if (twice !== undefined) throw invalidRequest('tools', `tools has ${twice} twice.`);
  // The names of the tools of servers are not known yet.
  if (splitServers(input).servers.length > 0) return;
  if (typeof tool_choice === 'object' && !names.includes(tool_choice.name))
    throw invalidRequest(
      'tool_choice',
      `tool_choice names ${tool_choice.name}, which is not in tools.`,
    );
  if (tool_choice === 'required' && names.length === 0)
    throw invalidRequest('tool_choice', 'tool_choice is required, but there are no tools.');
}

/** The options that set the form of the text of an answer. */
const FORMS = ['response_format', 'regex', 'choice', 'grammar'] as const;

/** The first name that came before. */
export function firstTwice(names: readonly string[]): string | undefined {
  const seen = new Set<string>();
  return names.find((each) => seen.size === seen.add(each).size);
}

/** Throws prompt_not_text, prompt_too_large. */
export function checkSize(
  input: Pick<RunInput, (typeof TEXTS)[number]>,
  { prompt_bytes }: Pick<Limits, 'prompt_bytes'>,
): void {
  const bytes = textBytes(input);
  if (bytes <= prompt_bytes) return;
  throw new SvcError(
    'prompt_too_large',
    `The prompt has ${bytes} bytes; at most ${prompt_bytes} are taken.`,
    { param: input.messages == null ? 'prompt' : 'messages' },
  );
}

/** The bytes of what a provider gets. Throws prompt_not_text. */
export function textBytes(input: { readonly [F in (typeof TEXTS)[number]]?: unknown }): number {
  let bytes = 0;
  for (const field of TEXTS)
    eachText(input[field], (content) => {
      checkText(field, content);
      bytes += Buffer.byteLength(content);
    });
  return bytes;
}

/** The fields of a request whose texts its provider gets. */
const TEXTS = [
  'prompt',
  'system',
  'messages',
  'tools',
  'response_format',
  'stop',
  'suffix',
  'regex',
  'choice',
  'grammar',
] as const;

/** Visits the texts inside a value, with the names of its fields. */
function eachText(value: unknown, visit: (text: string) => void): void {
  if (typeof value === 'string') visit(value);
  else if (Array.isArray(value)) for (const inner of value) eachText(inner, visit);
  else if (typeof value === 'object' && value !== null)
    for (const [name, inner] of Object.entries(value)) {
      visit(name);
      eachText(inner, visit);
    }
}

export const pullInput = object({
  reference: name(4096),
  name: v.nullish(name(255)),
  sha256: v.nullish(name(128)),
  /** Also a model that does not fit the memory. */
  anyway: v.nullish(flag),
});

/** The machine defines the events. */
export const lifecycleInput = named(
  'LifecycleInput',
  object({
    type: name(80),
    mode: v.nullish(oneOf(['drain', 'force'])),
    timeout_ms: v.nullish(wholeFrom(0, limitSpecs.drain_ms.max)),
  }),
);
export type LifecycleInput = v.InferOutput<typeof lifecycleInput>;

/** A browser signs in with one of them. */
export const sessionInput = named(
  'SessionInput',
  object({ ticket: v.nullish(name(512), null), token: v.nullish(name(512), null) }),
);

/** Which page of the runs. */
export const runListInput = {
  limit: v.nullish(count),
  /** The page starts with the run before this one. */
  before: v.nullish(text),
  ...byFilter(v.nullish(text), () => v.nullish(text), v.nullish(flag)),
  /** `short`, the default: the beginning of the texts; a run that was cut is `shortened`. */
  texts: v.nullish(oneOf(['whole', 'short'])),
};
/** The fields that choose the target of a run. */
export const nextInput = {
  provider: v.nullish(text),
  model: v.nullish(v.union([text, v.array(text)])),
  cloud: v.nullish(flag),
  conversation: v.nullish(text),
  origin: v.nullish(text),
};
export type NextInput = WithoutNull<v.InferOutput<v.ObjectSchema<typeof nextInput, undefined>>>;
/** Words that finished runs have. */
export const runSearchInput = {
  words: name(WORDS_MAX),
  limit: v.nullish(count),
  /** The page starts with the run before this one. */
  before: v.nullish(text),
};
export type RunSearchQuery = WithoutNull<
  v.InferOutput<v.ObjectSchema<typeof runSearchInput, undefined>>
>;
export type RunListQuery = WithoutNull<
  v.InferOutput<v.ObjectSchema<typeof runListInput, undefined>>
> & {
  /** Only the newest run of each conversation. */
  latest?: boolean;
};
/** Which page of the conversations: the one before this run. */
export type ConversationListQuery = Pick<RunListQuery, 'limit' | 'before' | 'conversation'>;

/**
 * The settings of a provider, which `readProvider` checks as it checks those of the configuration.
 */
export const providerInput = v.looseObject({ id: name() });
export type ProviderInput = v.InferOutput<typeof providerInput>;

/** A local model to load. `keep_alive_ms`: how long it stays without work, from now on. */
export const loadInput = named(
  'LoadInput',
  object({ model: name(), keep_alive_ms: v.nullish(wholeFrom(0, KEEP_MAX_MS)) }),
);
export type LoadInput = v.InferOutput<typeof loadInput>;

/**
 * Bounds what a request asks a model, by the names that every API has for it. This is done before
 * the check of each item, which takes far longer, and reports each mistake.
 */
type ConversationLimits = Pick<Limits, 'run_messages' | 'run_tools'>;

const LISTS = [
  ['messages', 'messages', 'run_messages'],
  ['input', 'items', 'run_messages'],
  ['tools', 'tools', 'run_tools'],
] as const;
/** Where messages have their parts. */
const SAID = ['messages', 'input', 'system'] as const;

/** Throws invalid_request with the name of the list as `param`. */
export function boundConversation(request: unknown, limits: ConversationLimits): void {
  const fields = asRecord(request);
  for (const [param, noun, limit] of LISTS) {
    const list = fields[param];
    if (Array.isArray(list) && list.length > limits[limit])
      throw tooMany(param, `${list.length} ${noun}`, limits[limit]);
  }
  const partsMax = 2 * limits.run_messages;
  let parts = 0;
  for (const param of SAID)
    eachListBelow(fields[param], ({ length }) => {
      parts += length;
      if (parts > partsMax) throw tooMany(param, `more than ${partsMax} parts`, partsMax);
    });
}

/** Visits the lists inside the items of a list: parts, tool calls, images. */
function eachListBelow(value: unknown, visit: (list: readonly unknown[]) => void): void {
  const waiting: unknown[] = Array.isArray(value) ? [...value] : [];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next !== 'object' || next === null || ArrayBuffer.isView(next)) continue;
    if (Array.isArray(next)) visit(next);
    for (const inner of Object.values(next)) if (typeof inner === 'object') waiting.push(inner);
  }
}

function tooMany(param: string, what: string, most: number): SvcError {
  return new SvcError('invalid_request', `${param} has ${what}; at most ${most} are taken.`, {
    param,
    hint: param === 'tools' ? 'Send fewer.' : 'Send fewer, or raise the limit run_messages.',
  });
}

/**
 * The span of a client, as W3C Trace Context writes it: the parent of the spans of a run. A text of
 * another form counts as none, as that standard asks.
 */
export function spanOf(traceparent: unknown): { traceparent?: string } {
  return typeof traceparent === 'string' && SPAN.test(traceparent) ? { traceparent } : {};
}

/** Neither the trace nor the span is all zeros. */
const SPAN = /^00-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/;
