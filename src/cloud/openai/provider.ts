import type { ProviderKeys } from '../../config/keys/port.ts';
import type { Embedding, EmbedText } from '../../contract/embed-input.ts';
import { DETAILS, THOUGHT } from '../../contract/messages/parts.ts';
import { asRecord } from '../../json.ts';
import { type JsonBudget, jsonBudgets, type Limits } from '../../limits.ts';
import type { AttemptRequest, OutputPart, ProviderPort, Ranking } from '../../ports/providers.ts';
import { streamFailure } from '../remote/connection-failure.ts';
import { type EmbedRequest, tokensSoFar } from '../remote/embed-request.ts';
import { notRead, readBody, toFailure } from '../remote/failure.ts';
import { listModels } from '../remote/list-models.ts';
import { modelOf } from '../remote/model-name.ts';
import { readEvents } from '../remote/read-events.ts';
import { readSecrets } from '../remote/read-secrets.ts';
import { RequestForms } from '../remote/request-form.ts';
import { type FilePlace, FileRefusals } from '../remote/result-files.ts';
import { secretTexts } from '../remote/secret-texts.ts';
import { Exchange, Upstream } from '../remote/upstream.ts';
import { parseUpstreamError } from '../remote/upstream-error.ts';
import { chatBody, isOfOpenai } from './body.ts';
import { ChatAnswer } from './chat-answer.ts';
import { passOn, toPathFailure } from './pass.ts';
import { type AddressedConfig, JSON_TYPE, keyHeader, settingHeaders } from './request-headers.ts';

export interface RemoteOptions {
  id: string;
  config: AddressedConfig;
  env: NodeJS.ProcessEnv;
  keys: ProviderKeys;
  limits: Limits;
}

/**
 * Creates the provider for a server with OpenAI's chat completions. It loads and opens nothing
 * before the first request.
 */
export function createRemoteProvider(options: RemoteOptions): ProviderPort {
  const upstream = new Upstream(options.config, options.env, options.limits);
  const forms = new RequestForms();
  const refusals = new FileRefusals();
  const models = (signal: AbortSignal) =>
    listModels(
      options,
      new Exchange(upstream),
      {
        url: `${options.config.base_url}/models`,
        headers: (key) =>
          new Headers({ ...settingHeaders(options.config), ...keyHeader(options.config, key) }),
      },
      signal,
    );
  return {
    id: options.id,
    returns: isOfOpenai(options.config) ? [] : [DETAILS, THOUGHT],
    stream: (attempt, signal) =>
      refusals.send(attempt.request, AFTER, (request) =>
        streamAnswer(
          { ...options, forms },
          new Exchange(upstream),
          { ...attempt, request },
          signal,
        ),
      ),
    models,
    probe: async (signal) => ({ models: (await models(signal)).map(({ name }) => name) }),
    embedsTokens: true,
    embed: (model, texts, embedding, signal) =>
      embedTexts(options, new Exchange(upstream), { model, texts, options: embedding }, signal),
    rank: (model, query, documents, signal) =>
      rankDocuments(options, new Exchange(upstream), { model, query, documents }, signal),
    pass: (request, signal) => passOn(options, new Exchange(upstream), request, signal),
    close: () => upstream.connections.close(),
  };
}

/** A message with the role `tool` is a text. */
const AFTER: FilePlace = { form: 'after' };

/**
 * Streams one answer: the content of one read is passed on together. After an abort it closes the
 * connection, then ends without a `finish` part.
 */
async function* streamAnswer(
  options: RemoteOptions & { forms: RequestForms },
  exchange: Exchange,
  { run_id, request }: AttemptRequest,
  signal: AbortSignal,
): AsyncGenerator<OutputPart> {
  const { config, limits, forms } = options;
  const model = modelOf(request, config);
  const plain = chatBody(config, model, request);
  const secrets = await readSecrets(options, secretTexts(request));
  const context = { run_id, key: secrets.place, model, request, secrets, limits };
  let ended: 'complete' | 'broken' = 'broken';
  try {
    const answered = await exchange.send({
      method: 'POST',
      url: `${config.base_url}/chat/completions`,
      headers: { ...settingHeaders(config), ...JSON_TYPE, ...keyHeader(config, secrets.key) },
      body: forms.body(model, plain),
      model,
      secrets,
      signal,
      instead: forms.retryBodyFor(model, plain),
    });
    for await (const part of readEvents(answered.body, new ChatAnswer(context), context)) {
      if (signal.aborted) return;
      yield part;
    }
    ended = 'complete';
  } catch (thrown) {
    if (!signal.aborted) throw streamFailure(thrown);
  } finally {
    await exchange.end(ended);
  }
}

/** Texts of one request to the upstream. Servers accept different numbers; all accept this many. */
const BATCH_TEXTS = 128;

/**
 * Asks the server for vectors, one batch of texts after the other, so that no response is large.
 * Throws SvcError. After an abort it closes the connection and throws.
 */
async function embedTexts(
  remote: RemoteOptions,
  exchange: Exchange,
  { model, texts, options }: EmbedRequest<EmbedText>,
  signal: AbortSignal,
): Promise<Embedding> {
  const strings = texts.filter((text) => typeof text === 'string');
  const ask = await asks(remote, exchange, strings, signal);
  const vectors: number[][] = [];
  let input_tokens: number | null = 0;
  let ended: 'complete' | 'broken' = 'broken';
  try {
    for (let from = 0; from < texts.length; from += BATCH_TEXTS) {
      const input = texts.slice(from, from + BATCH_TEXTS);
      const body = { model, input, encoding_format: 'base64', ...options };
      const read = readEmbedding(await ask('/embeddings', body, VECTORS), input.length);
      vectors.push(...read.vectors);
      input_tokens = tokensSoFar(input_tokens, read.input_tokens);
    }
    ended = 'complete';
    return { vectors, input_tokens };
  } catch (thrown) {
    throw signal.aborted ? thrown : streamFailure(thrown);
  } finally {
    await exchange.end(ended);
  }
}

/** Asks with one request after the other: each path has one whole answer. Throws SvcError. */
async function asks(
  remote: RemoteOptions,
  exchange: Exchange,
  texts: readonly string[],
  signal: AbortSignal,
) {
  const { config, limits } = remote;
  const secrets = await readSecrets(remote, texts);
  return async (
    path: string,
    body: { model: string },
    [what, budget]: readonly [what: string, JsonBudget],
  ): Promise<Record<string, unknown>> => {
    const { model } = body;
    const response = await exchange.send({
      method: 'POST',
      url: `${config.base_url}${path}`,
      headers: { ...settingHeaders(config), ...JSON_TYPE, ...keyHeader(config, secrets.key) },
      body: JSON.stringify(body),
      model,
      secrets,
      signal,
    });
    const bytes = limits.provider_vectors_bytes;
    const value = asRecord(await readBody(response.body, what, { ...budget, bytes }));
    if (value.error === undefined || value.error === null) return value;
    throw toFailure(parseUpstreamError(value, secrets), { key: secrets.place, model });
  };
}

/**
 * Asks the server for the scores of all documents. Their range is the server's. Throws SvcError.
 * After an abort it closes the connection and throws.
 */
async function rankDocuments(
  remote: RemoteOptions,
  exchange: Exchange,
  request: { model: string; query: string; documents: readonly string[] },
  signal: AbortSignal,
): Promise<Ranking> {
  const { query, documents } = request;
  let ended: 'complete' | 'broken' = 'broken';
  try {
    const ask = await asks(remote, exchange, [query, ...documents], signal);
    const { results, data, usage, meta } = await ask('/rerank', request, SCORES);
    const scored = readEach(results ?? data, documents.length, 'scores', (item) =>
      Number.isFinite(item.relevance_score) ? Number(item.relevance_score) : null,
    );
    ended = 'complete';
    const { prompt_tokens, total_tokens } = asRecord(usage);
    const { input_tokens } = asRecord(asRecord(meta).tokens);
    return {
      scores: scored,
      input_tokens: tokensSoFar(0, prompt_tokens ?? total_tokens ?? input_tokens),
    };
  } catch (thrown) {
    if (signal.aborted) throw thrown;
    throw toPathFailure(streamFailure(thrown), '/rerank');
  } finally {
    await exchange.end(ended);
  }
}

/**
 * Reads `{data: [{index, embedding}], usage}`. A vector is a list of numbers, or base64 of 32-bit
 * floats.
 */
function readEmbedding({ data, usage }: Record<string, unknown>, count: number): Embedding {
  const vectors = readEach(data, count, 'vectors', ({ embedding }) => readVector(embedding));
  return { vectors, input_tokens: tokensSoFar(0, asRecord(usage).prompt_tokens) };
}

/** Reads one value for each text. Servers may send them in any order. */
function readEach<T>(
  list: unknown,
  count: number,
  noun: string,
  read: (item: Record<string, unknown>) => T | null,
): T[] {
  if (!Array.isArray(list)) throw notRead(`no list of ${noun}`);
  const found = new Array<T | undefined>(count).fill(undefined);
  for (const [place, item] of list.entries()) {
    const { index = place, ...rest } = asRecord(item);
    const value = read(rest);
    if (value === null) throw notRead(`${noun} that cannot be read`);
    if (typeof index !== 'number' || !(index in found) || found[index] !== undefined)
      throw notRead(`${noun} that belong to no text`);
    found[index] = value;
  }
  const whole = found.filter((value) => value !== undefined);
  if (whole.length !== count) throw notRead(`${whole.length} ${noun} for ${count} texts`);
  return whole;
}

function readVector(value: unknown): number[] | null {
  const vector = typeof value === 'string' ? fromBase64(value) : value;
  return Array.isArray(vector) && vector.length > 0 && vector.every(Number.isFinite)
    ? vector
    : null;
}

function fromBase64(text: string): number[] | null {
  const bytes = Buffer.from(text, 'base64');
  const count = bytes.length / FLOAT_BYTES;
  if (!Number.isInteger(count) || count > jsonBudgets.vectors.numbers) return null;
  return Array.from({ length: count }, (_, at) => bytes.readFloatLE(at * FLOAT_BYTES));
}

const FLOAT_BYTES = 4;

const VECTORS = ['the vectors', jsonBudgets.vectors] as const;
const SCORES = ['the scores', jsonBudgets.foreign] as const;
