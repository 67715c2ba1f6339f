import { ulid } from 'ulid';
import * as v from 'valibot';
import { invalidRequest } from '../../contract/check.ts';
import type { RunInput, RunRecord } from '../../contract/contract.ts';
import type { EmbedText } from '../../contract/embed-input.ts';
import { valuesFor } from '../../contract/embed-input.ts';
import type { Usage } from '../../contract/events.ts';
import { parseRunInput } from '../../contract/inputs.ts';
import { AS_PROMPT, type Reading } from '../../contract/reading.ts';
import { runInput } from '../../contract/run.ts';
import { nonEmptyList, withEarlyAbort } from '../../contract/vocabulary.ts';
import { SvcError } from '../../errors.ts';
import { sendJson } from '../../transport/http/reply.ts';
import type { Context } from '../../transport/http/route.ts';
import { answerEndSignal, clientGoneSignal, clientOf } from '../../transport/http/run-request.ts';
import type { Answer } from '../answer.ts';
import { toApiId } from '../ids.ts';
import {
  type ChoiceForm,
  sendChoices,
  startChoices,
  streamChoices,
  usageOfAll,
} from './choices.ts';
import {
  constraints,
  fixedValues,
  flag,
  length,
  lengthOf,
  named,
  object,
  oneForm,
  pick,
  SAMPLING,
  sampling,
  seedOf,
  stopOf,
  text,
  textsOf,
  tokens,
  topLogprobs,
  WITHOUT_EFFECT,
} from './parameters.ts';
import { finishOf, frame, modelOf, renameParams, secondsOf, usageOf } from './parts.ts';
import { answerTokensOf, LogprobLists, type TokenLogprobs } from './token-logprobs.ts';

/** Most prompts of one request, and most answers to them all. */
const PROMPTS_MAX = 128;
const PROMPT = 'must be a text, a list of texts, or ids of tokens.';
const prompts = withEarlyAbort(
  v.pipe(
    nonEmptyList(v.union([text, tokens], PROMPT), PROMPT, 'must have at least one text.'),
    v.maxLength(PROMPTS_MAX, `must have at most ${PROMPTS_MAX} texts.`),
  ),
);

/** POST /v1/completions: the older API, for prompts without a conversation. */
export const completionInput = named(
  'CompletionInput',
  object({
    ...sampling,
    prompt: withEarlyAbort(v.union([text, tokens, prompts], PROMPT)),
    max_tokens: length(0),
    best_of: fixedValues([1], 'svc makes one answer for each request.'),
    /** The answer begins with the prompt. */
    echo: v.nullish(flag),
    suffix: runInput.entries.suffix,
    ...constraints,
    /** The probability of each token, with so many of the likeliest ones. */
    logprobs: topLogprobs,
    ...WITHOUT_EFFECT,
  }),
);
type CompletionInput = v.InferOutput<typeof completionInput>;
type CompletionContext = Context<unknown, CompletionInput>;

/** A prompt of the request, as far as it was read. */
interface Prompt {
  text: string;
  /** What `echo` puts before the answer. */
  echo: string;
  /** Its tokens, with their probabilities. Null: they were not asked for. */
  reading: Reading | null;
  /** Characters of the token with which the model begins a text that the client sent. */
  before: number;
}

export async function answerCompletion(context: CompletionContext): Promise<void> {
  const { limits } = context;
  const request = await context.body({ values: valuesFor(limits, limits.body_bytes) });
  const { n, stream_options, logprobs } = request;
  const prompts = await promptsOf(context, request).catch((thrown) => {
    throw inCompletion(thrown);
  });
  const common = inputOf(context, request);
  const [first, ...others] = prompts.map(({ text }) => withPrompt(common, text));
  if (first === undefined) throw new SvcError('internal');
  if (isOnlyRead(request)) return sendRead(context, request, prompts);
  if (request.max_tokens === 0) return sendNothing(context, [first, ...others], request, prompts);
  const asked = { api: 'openai.completions', streams: request.stream === true };
  const choices = await startChoices(context, n, [first, ...others], asked);
  const promptOf = (index: number) => prompts[Math.floor(index / choices.each)] as Prompt;
  const isExplained = logprobs != null;
  if (request.stream !== true)
    return sendChoices(
      context,
      choices,
      (answers) => toCompletion(answers, { each: choices.each, promptOf, isExplained }),
      inCompletion,
    );
  await streamChoices(
    context,
    choices,
    stream_options,
    (run, index) => chunksOf(run, index, promptOf(index), isExplained),
    inCompletion,
  );
}

/** Before a suffix, the text may be empty: the model writes the beginning. */
function withPrompt(asked: RunInput, text: string): RunInput {
  if (asked.suffix == null) return { ...asked, prompt: text };
  return { ...asked, messages: [{ role: 'user', content: [{ type: 'text', text }] }] };
}

/** What all prompts of a request share. */
function inputOf({ runtime }: CompletionContext, request: CompletionInput): RunInput {
  return {
    ...pick(request, [...SAMPLING, 'model', 'metadata', 'logprobs']),
    // A provider that has only chats gets a message, as before.
    ...(runtime.loads.continuesTexts(request.model ?? null) ? { raw: true } : {}),
    ...(request.suffix ? { suffix: request.suffix } : {}),
    ...oneForm(null, request),
    stop: stopOf(request.stop),
    max_tokens: lengthOf(request.max_tokens || null) ?? MAX_TOKENS,
    seed: seedOf(request.seed),
  } as RunInput;
}

/** Reads the prompts, as far as their ids or their probabilities need it. */
async function promptsOf(
  context: CompletionContext,
  request: CompletionInput,
): Promise<readonly Prompt[]> {
  const sent = textsOf(request.prompt);
  if (sent.length * (request.n ?? 1) > PROMPTS_MAX)
    throw invalidRequest('prompt', `The request asks for more than ${PROMPTS_MAX} answers.`);
  const asker = { client: clientOf(context.req) };
  const over = answerEndSignal(context);
  const { model, echo, logprobs = null } = request;
  const top = echo === true && logprobs !== null ? Math.max(1, logprobs) : null;
  const read = (of: EmbedText, top: number | null) =>
    context.runtime.embeddings.read({ model, of, ...AS_PROMPT, top }, asker, over);
  const made: Prompt[] = [];
  for (const [index, of] of sent.entries()) {
    const reading = typeof of === 'string' && top === null ? null : await read(of, top);
    const text = typeof of === 'string' ? of : (reading?.text ?? '');
    if (typeof of !== 'string' && !isOnlyRead(request))
      checkSame(of, (await read(text, null)).tokens, `prompt.${index}`);
    const scored = top === null ? null : reading;
    const before = Math.max(0, (reading?.text.length ?? 0) - text.length);
    made.push({ text, echo: echo === true ? text : '', reading: scored, before });
  }
  return made;
}

/** The log has the text of a prompt. So its tokens must be those that the model reads in it. */
function checkSame(sent: readonly number[], read: readonly { id: number }[], param: string): void {
  const at = sent.findIndex((id, index) => id !== read[index]?.id);
  if (at < 0 && sent.length === read.length) return;
  const place = at < 0 ? sent.length : at;
  throw new SvcError(
    'invalid_request',
    `The model reads other tokens in the text of ${param}: the first other one is ${place}.`,
    { param, hint: 'Send the text. Ids must be those that /tokenize gives with add_special.' },
  );
}

/** Whether reading the prompts answers the request: its one token is the likeliest one. */
function isOnlyRead(request: CompletionInput): boolean {
  const { max_tokens, echo, logprobs, stream, temperature } = request;
  if (echo !== true || logprobs == null || stream === true) return false;
  const isPlain = CHANGES.every((name) => request[name] == null);
  return max_tokens === 0 || (max_tokens === 1 && temperature === 0 && isPlain);
}

/** What may make another token the likeliest one, or end the answer before it. */
const CHANGES = [
  ...SAMPLING.filter((name) => name !== 'max_tokens' && name !== 'temperature'),
  ...(['stop', 'suffix'] as const),
  ...(Object.keys(constraints) as (keyof typeof constraints)[]),
];

function chunksOf(
  run: RunRecord,
  index: number,
  { echo, reading, before }: Prompt,
  isExplained: boolean,
): ChoiceForm {
  const lists = new LogprobLists(before);
  const chunk = (text: string, finish_reason: string | null, logprobs: TokenLogprobs | null) =>
    frame(envelopeOf(run, textChoice(index, text, finish_reason, logprobs)));
  let opening = echo === '' ? '' : chunk(echo, null, reading && lists.toLists(reading.tokens));
  const after = (text: string) => {
    const whole = opening + text;
    opening = '';
    return whole;
  };
  return {
    head: head(run),
    // This API has text alone.
    next: ({ kind, text, logprobs = [] }) => {
      const explained = isExplained ? lists.toLists(answerTokensOf(logprobs)) : null;
      return after(kind === undefined ? chunk(text, null, explained) : '');
    },
    end: ({ finish_reason }) => after(chunk('', finishOf(finish_reason, 0), null)),
  };
}

/** As OpenAI's. Without a bound, a model that continues a text fills its whole context. */
const MAX_TOKENS = 16;

/** The run has a conversation of the prompt alone. */
const inCompletion = renameParams({ messages: 'prompt', tokens: 'prompt' });

/** `max_tokens: 0` starts no run. The prompt is counted, and echoed where `echo` says so. */
async function sendNothing(
  context: CompletionContext,
  inputs: readonly RunInput[],
  request: CompletionInput,
  prompts: readonly Prompt[],
): Promise<void> {
  if (request.stream === true)
    throw invalidRequest('stream', 'An answer with max_tokens 0 comes whole: leave stream out.');
  const { runs } = context.runtime;
  const gone = clientGoneSignal(context);
  let counted: number | null = 0;
  for (const input of inputs) {
    const asked = parseRunInput(input, context.limits);
    const { input_tokens, uncounted } = await runs.countTokens(asked, gone).catch((thrown) => {
      throw inCompletion(thrown);
    });
    counted = counted === null || uncounted !== null ? null : counted + input_tokens;
  }
  const texts = prompts.map(({ echo }) => ({ text: echo, logprobs: null }));
  sendUnrecorded(context, request, texts, { input_tokens: counted, output_tokens: 0 });
}

/** An answer that reading the prompts gives: see docs/decisions/0093. */
function sendRead(
  context: CompletionContext,
  request: CompletionInput,
  prompts: readonly Prompt[],
): void {
  const made = request.max_tokens ?? 0;
  const texts = prompts.map(({ echo, reading, before }) => {
    const { tokens = [], next = [] } = reading ?? {};
    const top = next.slice(0, request.logprobs ?? 0);
    const answer = next.slice(0, made).map((token) => ({ ...token, top }));
    const logprobs = new LogprobLists(before).toLists([...tokens, ...answer]);
    return { text: echo + answer.map(({ text }) => text).join(''), logprobs };
  });
  const input_tokens = prompts.reduce((sum, { reading }) => sum + (reading?.tokens.length ?? 0), 0);
  sendUnrecorded(context, request, texts, { input_tokens, output_tokens: made * prompts.length });
}

function sendUnrecorded(
  { res, runtime }: CompletionContext,
  { model, n }: CompletionInput,
  texts: readonly { text: string; logprobs: TokenLogprobs | null }[],
  used: Usage,
): void {
  const head = {
    id: `cmpl-${ulid()}`,
    object: 'text_completion',
    created: Math.floor(Date.now() / 1000),
    model: modelOf(runtime.models.next(model == null ? {} : { model })),
  };
  const each = Array.from({ length: n ?? 1 });
  const choices = texts
    .flatMap((one) => each.map(() => one))
    .map(({ text, logprobs }, index) => textChoice(index, text, 'length', logprobs));
  const usage = usageOf(used);
  sendJson(res, 200, { ...head, choices, ...(usage === undefined ? {} : { usage }) });
}

function toCompletion(
  answers: readonly [Answer, ...Answer[]],
  request: { each: number; promptOf(index: number): Prompt; isExplained: boolean },
): object {
  const choices = answers.map(({ text, finish_reason, logprobs }, index) => {
    const { echo, reading, before } = request.promptOf(index);
    const shown = [...(reading?.tokens ?? []), ...answerTokensOf(logprobs)];
    const all = request.isExplained ? new LogprobLists(before).toLists(shown) : null;
    return textChoice(index, echo + text, finishOf(finish_reason, 0), all);
  });
  const usage = usageOfAll(
    answers.map((answer) => answer.usage),
    request.each,
  );
  return { ...envelopeOf(answers[0].run, ...choices), usage };
}

function head(run: RunRecord): object {
  return {
    id: toApiId('cmpl-', run.id),
    object: 'text_completion',
    created: secondsOf(run),
    model: modelOf(run),
  };
}

function envelopeOf(run: RunRecord, ...choices: object[]): object {
  return { ...head(run), choices };
}

function textChoice(
  index: number,
  text: string,
  finish_reason: string | null,
  logprobs: TokenLogprobs | null,
): object {
  return { index, text, logprobs, finish_reason };
}
