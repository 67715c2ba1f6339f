import * as v from 'valibot';
import type { RunInput, RunRecord } from '../../contract/contract.ts';
import { valuesFor } from '../../contract/embed-input.ts';
import { parseRunInput } from '../../contract/inputs.ts';
import { AS_PROMPT, type Reading, type ReadToken } from '../../contract/reading.ts';
import { anything, count, query, withEarlyAbort } from '../../contract/vocabulary.ts';
import { LOCAL_RUNS } from '../../limits.ts';
import type { TextToRead } from '../../runtime/embeddings/embeddings.ts';
import { sendLarge } from '../../transport/http/large.ts';
import { sendJson } from '../../transport/http/reply.ts';
import { type Context, type Route, route } from '../../transport/http/route.ts';
import { answerEndSignal, clientGoneSignal, clientOf } from '../../transport/http/run-request.ts';
import { sendAnswer, streamAnswer } from '../answer.ts';
import type { AnswerEnd } from '../pieces.ts';
import { startFor } from '../start.ts';
import { type ChatInput, chatInput, runOfChat } from './chat-input.ts';
import { readFiles } from './files.ts';
import {
  constraints,
  flag,
  length,
  lengthOf,
  name,
  named,
  object,
  oneForm,
  pick,
  SAMPLING_ALONE,
  sampling,
  seedOf,
  stopOf,
  text,
} from './parameters.ts';
import { CHUNKS, frame, modelOf, renameParams } from './parts.ts';

/** What llama-server has beside OpenAI's API, for local models. */

const { model, n: _, stream_options: __, max_tokens: ___, metadata: ____, ...odds } = sampling;

const tokenizeInput = named(
  'TokenizeInput',
  object({
    content: text,
    model,
    /** The tokens of a whole prompt: the model file may ask for one before it. */
    add_special: v.nullish(flag),
    /** Control tokens in the text are read. The default is true. */
    parse_special: v.nullish(flag),
    with_pieces: v.nullish(flag),
  }),
);
const detokenizeInput = named(
  'DetokenizeInput',
  object({ tokens: withEarlyAbort(v.array(count, 'must be a list of ids of tokens.')), model }),
);
const infillInput = named(
  'InfillInput',
  object({
    ...odds,
    model,
    input_prefix: text,
    input_suffix: text,
    /** Texts that belong to it, such as other files. */
    input_extra: v.nullish(v.array(object({ filename: v.nullish(text), text }))),
    /** The end of the prefix, whose tokens do not join it. */
    prompt: v.nullish(text),
    n_predict: length(0),
    ...constraints,
  }),
);
const propsQuery = query({ model: v.optional(name()) });

const token = v.union([count, object({ id: count, piece: v.union([text, v.array(count)]) })]);
const shared = { method: 'POST', access: 'token', unknownFields: 'may refuse' } as const;

export const llamaServerRoutes: readonly Route[] = [
  route({
    ...shared,
    path: '/tokenize',
    summary: 'llama-server: the tokens of a text, by a local model. Starts no run.',
    body: tokenizeInput,
    answers: { 200: named('Tokens', object({ tokens: v.array(token) })) },
    answer: tokenize,
  }),
  route({
    ...shared,
    path: '/detokenize',
    summary: 'llama-server: the text of tokens, by a local model. Starts no run.',
    body: detokenizeInput,
    answers: { 200: named('TokensText', object({ content: text })) },
    answer: detokenize,
  }),
  route({
    ...shared,
    path: '/apply-template',
    summary: 'llama-server: the prompt that a local model gets for a conversation. Starts no run.',
    body: chatInput,
    asksModel: true,
    answers: { 200: named('Prompt', object({ prompt: text })) },
    answer: applyTemplate,
  }),
  route({
    ...shared,
    path: '/infill',
    summary: 'llama-server: the text between two others, with stream: true as it is made.',
    headers: ['Idempotency-Key', 'X-Svc-Client', 'X-Svc-On-Disconnect'],
    body: infillInput,
    answers: {
      200: [
        named('Infill', v.looseObject({ content: text, stop: flag })),
        { type: 'text/event-stream' },
      ],
    },
    answer: infill,
  }),
  route({
    method: 'GET',
    path: '/props',
    access: 'token',
    scope: 'run',
    summary: 'llama-server: what a local model is, and how it is loaded.',
    query: propsQuery,
    answers: { 200: anything },
    answer: showProps,
  }),
];

type Sent<S extends v.GenericSchema> = Context<unknown, v.InferOutput<S>>;

async function tokenize(context: Sent<typeof tokenizeInput>): Promise<void> {
  const { content, add_special, parse_special, with_pieces, model } = await context.body();
  const options = { begins: add_special === true, control: parse_special !== false };
  const { tokens } = await readBy(context, { model, of: content, ...options }).catch(throwRenamed);
  await sendLarge(context, async () => ({
    tokens: tokens.map((token) => (with_pieces === true ? pieceOf(token) : token.id)),
  }));
}

/** How the model reads a text, without probabilities. */
function readBy(context: Context, input: Omit<TextToRead, 'top'>): Promise<Reading> {
  const { runtime, req } = context;
  return runtime.embeddings.read(
    { ...input, top: null },
    { client: clientOf(req) },
    answerEndSignal(context),
  );
}

/** A token that is only a part of a character has its bytes. */
function pieceOf({ id, text, bytes }: ReadToken): object {
  return { id, piece: bytes ?? text };
}

async function detokenize(context: Sent<typeof detokenizeInput>): Promise<void> {
  const { limits } = context;
  const { tokens, model } = await context.body({ values: valuesFor(limits, limits.body_bytes) });
  const { text } = await readBy(context, { model, of: tokens, ...AS_PROMPT });
  await sendLarge(context, async () => ({ content: text }));
}

async function applyTemplate(context: Context<unknown, ChatInput>): Promise<void> {
  const chat = await context.body();
  const { input, narrowings } = runOfChat(chat, await readFiles(chat.messages, context));
  const asked = parseRunInput(input, context.limits);
  const { runs } = context.runtime;
  const { text } = await runs.readPrompt(asked, clientGoneSignal(context), narrowings);
  await sendLarge(context, async () => ({ prompt: text }));
}

async function infill(context: Sent<typeof infillInput>): Promise<void> {
  const request = await context.body();
  const { input_extra, input_prefix, input_suffix, prompt, n_predict } = request;
  const files = (input_extra ?? []).map(({ filename, text }) => [filename ?? EXTRA_NAME, text]);
  const texts = [...files, [PRESENT_NAME, input_prefix, ...(prompt ? [prompt] : [])]];
  // Editors ask so to have the prompt computed before it is needed.
  if (n_predict === 0) return sendJson(context.res, 200, { index: 0, content: '', stop: true });
  const input = {
    ...pick(request, SAMPLING_ALONE),
    model: request.model,
    messages: texts.map((parts) => ({
      role: 'user',
      content: parts.map((text) => ({ type: 'text', text })),
    })),
    raw: true,
    suffix: input_suffix,
    ...oneForm(null, request),
    max_tokens: lengthOf(n_predict),
    stop: stopOf(request.stop),
    seed: request.seed === RANDOM ? undefined : seedOf(request.seed),
  } as RunInput;
  const run = await startFor(context, input, { api: 'llama-server.infill' }).catch(throwRenamed);
  const rename = inInfill;
  if (request.stream !== true)
    return sendAnswer(context, run, (answer) => endOf(answer.run, answer, answer.text), { rename });
  await streamAnswer(context, run, { ...CHUNKS, rename }, async (pieces, { write }, present) => {
    for await (const piece of pieces) {
      if (piece.type === 'end') await write(frame(endOf(present(), piece, '')));
      else if (piece.kind === undefined) await write(frame(pieceFrame(piece.text)));
    }
  });
}

/** The names that llama-server gives to unnamed files, and to the file that is edited. */
const EXTRA_NAME = 'tmp';
const PRESENT_NAME = 'filename';
/** llama-server draws a seed for it. */
const RANDOM = -1;

function pieceFrame(content: string): object {
  return { index: 0, content, tokens: [], stop: false };
}

function endOf(run: RunRecord, end: Omit<AnswerEnd, 'type'>, content: string): object {
  const { finish_reason, stop_sequence, usage } = end;
  const { input_tokens, output_tokens, cached_tokens = 0, ...drafts } = usage;
  const { drafted_tokens: draft_n, accepted_tokens: draft_n_accepted } = drafts;
  const ended = finish_reason === 'length' ? 'limit' : 'eos';
  return {
    ...pieceFrame(content),
    stop: true,
    model: modelOf(run),
    tokens_predicted: output_tokens,
    tokens_evaluated: input_tokens,
    truncated: false,
    stop_type: stop_sequence === undefined ? ended : 'word',
    stopping_word: stop_sequence ?? '',
    timings: {
      cache_n: cached_tokens,
      prompt_n: input_tokens === null ? null : input_tokens - cached_tokens,
      predicted_n: output_tokens,
      ...(run.tokens_per_second == null ? {} : { predicted_per_second: run.tokens_per_second }),
      ...(draft_n === undefined ? {} : { draft_n, draft_n_accepted }),
    },
  };
}

const inInfill = renameParams({
  messages: 'input_prefix',
  suffix: 'input_suffix',
  max_tokens: 'n_predict',
  texts: 'content',
});

function throwRenamed(thrown: unknown): never {
  throw inInfill(thrown);
}

async function showProps(context: Context<v.InferOutput<typeof propsQuery>>): Promise<void> {
  const { runtime, limits, query } = context;
  const { provider, model: wanted } = runtime.models.next(
    query.model === undefined ? {} : { model: query.model },
  );
  const { id, context_length, ...model } = await runtime.models.find(`${provider}/${wanted}`);
  const { metadata = {} } = provider === 'local' ? await runtime.models.show(id) : {};
  const { models } = runtime.loads.list();
  const loaded = models.find((each) => each.id === id && each.purpose === 'answers');
  const most = limits.engine_context_tokens;
  const n_ctx = loaded?.context_length ?? Math.min(most, context_length ?? most);
  const params = { n_predict: limits.output_tokens };
  const template = metadata['tokenizer.chat_template'];
  sendJson(context.res, 200, {
    default_generation_settings: { n_ctx, params },
    total_slots: loaded?.parallel ?? (limits.local_runs || LOCAL_RUNS.least),
    model_alias: id,
    model_path: id,
    model_ftype: model.quantization,
    modalities: { vision: false, audio: false },
    chat_template: typeof template === 'string' ? template : '',
    chat_template_caps: { supports_tools: model.capabilities.includes('tools') },
    bos_token: await spellToken(context, id, metadata['tokenizer.ggml.bos_token_id'], loaded),
    eos_token: await spellToken(context, id, metadata['tokenizer.ggml.eos_token_id'], loaded),
    build_info: `svc ${runtime.health().version}`,
    is_sleeping: loaded === undefined,
  });
}

/** How a token is spelled. Empty: only a model in memory says it. */
async function spellToken(
  context: Context<object>,
  model: string,
  id: unknown,
  loaded: object | undefined,
): Promise<string> {
  if (typeof id !== 'number' || loaded === undefined) return '';
  return (await readBy(context, { model, of: [id], ...AS_PROMPT })).text;
}
