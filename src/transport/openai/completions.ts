import { ulid } from 'ulid';
import * as v from 'valibot';
import { wrong } from '../../contract/check.ts';
import type { RunInput, RunRecord } from '../../contract/contract.ts';
import { parseRunInput } from '../../contract/inputs.ts';
import { runInput } from '../../contract/run.ts';
import type { Answer } from '../dialect/answer.ts';
import { idIn } from '../dialect/ids.ts';
import { sendJson } from '../http/reply.ts';
import type { Context } from '../http/route.ts';
import { clientGone } from '../http/run-request.ts';
import {
  type ChoiceForm,
  sendChoices,
  startChoices,
  streamChoices,
  usageOfAll,
} from './choices.ts';
import {
  constraints,
  flag,
  length,
  lengthOf,
  named,
  object,
  oneFormat,
  only,
  pick,
  SAMPLING,
  sampling,
  seedOf,
  stopOf,
  text,
  WITHOUT_EFFECT,
} from './parameters.ts';
import { finishOf, frame, modelOf, renameParams, secondsOf, usageOf } from './parts.ts';

/** POST /v1/completions: the older API, for a prompt without a conversation. */
export const completionInput = named(
  'CompletionInput',
  object({
    ...sampling,
    prompt: v.union(
      [text, v.pipe(v.array(text), v.length(1, 'must be a text, or a list of one text.'))],
      'must be a text, or a list of one text.',
    ),
    max_tokens: length(0),
    best_of: only([1], 'svc makes one answer for each request.'),
    /** The answer begins with the prompt. */
    echo: v.nullish(flag),
    suffix: runInput.entries.suffix,
    ...constraints,
    logprobs: v.nullish(v.never('must be null: POST /v1/chat/completions has logprobs.')),
    ...WITHOUT_EFFECT,
  }),
);
type CompletionInput = v.InferOutput<typeof completionInput>;

export async function completion(context: Context<unknown, CompletionInput>): Promise<void> {
  const request = await context.body();
  const prompt = typeof request.prompt === 'string' ? request.prompt : (request.prompt[0] ?? '');
  const echo = request.echo === true ? prompt : '';
  const input = {
    ...pick(request, [...SAMPLING, 'model', 'metadata']),
    // A provider that has only chats gets a message, as before.
    ...(context.runtime.loads.continuesTexts(request.model ?? null) ? { raw: true } : {}),
    ...(request.suffix ? { suffix: request.suffix } : {}),
    prompt,
    response_format: oneFormat(null, request),
    stop: stopOf(request.stop),
    max_tokens: lengthOf(request.max_tokens || null) ?? MAX_TOKENS,
    seed: seedOf(request.seed),
  } as RunInput;
  if (request.max_tokens === 0) return sendNothing(context, input, request, echo);
  const choices = await startChoices(context, request.n, input, { api: 'openai.completions' });
  if (request.stream !== true)
    return sendChoices(context, choices, (answers) => whole(answers, echo), inCompletion);
  await streamChoices(
    context,
    choices,
    request.stream_options,
    (run, index) => chunksOf(run, index, echo),
    inCompletion,
  );
}

function chunksOf(run: RunRecord, index: number, echo: string): ChoiceForm {
  const chunk = (text: string, finish_reason: string | null) =>
    frame(described(run, textChoice(index, text, finish_reason)));
  let opening = echo === '' ? '' : chunk(echo, null);
  const after = (text: string) => {
    const whole = opening + text;
    opening = '';
    return whole;
  };
  return {
    head: head(run),
    // This API has text alone.
    next: ({ kind, text }) => after(kind === undefined ? chunk(text, null) : ''),
    end: ({ finish_reason }) => after(chunk('', finishOf(finish_reason, 0))),
  };
}

/** As OpenAI's. Without a bound, a model that continues a text fills its whole context. */
const MAX_TOKENS = 16;

/** The run has a conversation of the prompt alone. */
const inCompletion = renameParams({ messages: 'prompt' });

/** An answer of no tokens is no run: its prompt is counted, and echoed where `echo` says so. */
async function sendNothing(
  context: Context<unknown, CompletionInput>,
  input: RunInput,
  { model, n, stream }: CompletionInput,
  echo: string,
): Promise<void> {
  if (stream === true)
    throw wrong('stream', 'An answer with max_tokens 0 comes whole: leave stream out.');
  const { runs, models } = context.runtime;
  const count = async () =>
    runs.countTokens(parseRunInput(input, context.limits), clientGone(context));
  const { input_tokens, uncounted } = await count().catch((thrown) => {
    throw inCompletion(thrown);
  });
  const head = {
    id: `cmpl-${ulid()}`,
    object: 'text_completion',
    created: Math.floor(Date.now() / 1000),
    model: modelOf(models.next(model == null ? {} : { model })),
  };
  const choices = Array.from({ length: n ?? 1 }, (_, index) => textChoice(index, echo, 'length'));
  const usage = usageOf({
    input_tokens: uncounted === null ? input_tokens : null,
    output_tokens: 0,
  });
  sendJson(context.res, 200, { ...head, choices, ...(usage === undefined ? {} : { usage }) });
}

function whole(answers: readonly [Answer, ...Answer[]], echo: string): object {
  const choices = answers.map(({ text, finish_reason }, index) =>
    textChoice(index, echo + text, finishOf(finish_reason, 0)),
  );
  const usage = usageOfAll(answers.map((answer) => answer.usage));
  return { ...described(answers[0].run, ...choices), usage };
}

function head(run: RunRecord): object {
  return {
    id: idIn('cmpl-', run.id),
    object: 'text_completion',
    created: secondsOf(run),
    model: modelOf(run),
  };
}

function described(run: RunRecord, ...choices: object[]): object {
  return { ...head(run), choices };
}

function textChoice(index: number, text: string, finish_reason: string | null): object {
  return { index, text, logprobs: null, finish_reason };
}
