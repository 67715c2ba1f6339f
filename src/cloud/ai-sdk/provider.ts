import { isDeepStrictEqual } from 'node:util';
import type { LanguageModelV4, LanguageModelV4StreamPart } from '@ai-sdk/provider';
import type { Embedding } from '../../contract/embed-input.ts';
import type { MessagePart, RunRequest } from '../../contract/messages/parts.ts';
import type { ModelRecord } from '../../contract/model-record.ts';
import { effectiveRows } from '../../contract/options.ts';
import { SvcError } from '../../errors.ts';
import { asRecord } from '../../json.ts';
import type { Limits } from '../../limits.ts';
import type { AttemptRequest, OutputPart, ProviderPort } from '../../ports/providers.ts';
import { passOn } from '../openai/pass.ts';
import { readAnswer } from '../remote/answer.ts';
import {
  callOptions,
  refuseContinued,
  refuseUnsupported,
  unsupportedError,
} from '../remote/call-options.ts';
import { type EmbedRequest, tokensSoFar } from '../remote/embed-request.ts';
import { type EventAnswerContext, listOf } from '../remote/event-answer.ts';
import { notRead } from '../remote/failure.ts';
import { type Listing, listModels } from '../remote/list-models.ts';
import { modelOf } from '../remote/model-name.ts';
import { readEvents } from '../remote/read-events.ts';
import { readSecrets } from '../remote/read-secrets.ts';
import { RequestForms } from '../remote/request-form.ts';
import { FileRefusals } from '../remote/result-files.ts';
import { requestFailure } from '../remote/sdk-error.ts';
import { secretTexts } from '../remote/secret-texts.ts';
import { Exchange, Upstream } from '../remote/upstream.ts';
import { type Adapter, makeAdapter } from './adapter.ts';
import { type Expected, SdkFetch } from './fetch.ts';
import { Vectors } from './vectors.ts';

export interface SdkOptions extends Listing {
  env: NodeJS.ProcessEnv;
  /** The folder of packages that the user installed. */
  adapters: string;
}

/**
 * Creates a provider whose adapter is a package of the AI SDK. It loads and opens nothing before
 * the first request.
 */
export function createSdkProvider(options: SdkOptions): ProviderPort {
  const upstream = new Upstream(options.config, options.env, options.limits);
  const adapter = makeAdapter(options.config, options.adapters);
  const answering = { ...options, forms: new RequestForms() };
  const refusals = new FileRefusals();
  const models = (signal: AbortSignal) => knownModels(options, adapter, upstream, signal);
  return {
    id: options.id,
    returns: adapter.returns?.forms ?? [],
    stream: (attempt, signal) =>
      refusals.send(attempt.request, adapter.files, (request) =>
        streamAnswer(answering, adapter, upstream, { ...attempt, request }, signal),
      ),
    models,
    probe: async (signal) => ({ models: (await models(signal)).map(({ name }) => name) }),
    ...(adapter.canEmbed
      ? {
          embed: (model, texts: readonly string[], embedding, signal) =>
            embedTexts(options, adapter, upstream, { model, texts, options: embedding }, signal),
        }
      : {}),
    ...(options.config.adapter === 'openai'
      ? { pass: (request, signal) => passOn(options, new Exchange(upstream), request, signal) }
      : {}),
    close: () => upstream.connections.close(),
  };
}

/**
 * Streams one answer. After an abort it closes the connections, then ends without a `finish` part.
 */
async function* streamAnswer(
  options: SdkOptions & { forms: RequestForms },
  adapter: Adapter,
  upstream: Upstream,
  { run_id, request }: AttemptRequest,
  signal: AbortSignal,
): AsyncGenerator<OutputPart> {
  const { config, limits } = options;
  const model = adapter.nameForRequest(modelOf(request, config));
  refuseUnsendable(request, adapter);
  const secrets = await readSecrets(options, secretTexts(request));
  const asking = { key: secrets.place, model, secrets };
  const { fits } = adapter;
  const fit = fits && ((body: Record<string, unknown>) => fits(body, request));
  const wanted = { expected: expectedBodyOf(config, adapter), forms: options.forms, fit };
  const sdk = new SdkFetch(upstream, asking, wanted, signal);
  let ended: 'complete' | 'broken' = 'broken';
  try {
    const provider = await adapter.provider(secrets.key, sdk.fetch);
    const stream = await openAnswer(adapter.model(provider, model), request, {
      adapter,
      isStream: config.stream,
      signal,
    });
    const context = { ...asking, run_id, request, limits };
    for await (const part of await readParts(stream, sdk, adapter, context)) {
      if (signal.aborted) return;
      yield part;
    }
    ended = 'complete';
  } catch (thrown) {
    if (!signal.aborted) throw requestFailure(thrown, asking);
  } finally {
    await sdk.end(ended);
  }
}

function expectedBodyOf({ stream }: SdkOptions['config'], { isForeign, reads }: Adapter): Expected {
  if (reads !== null) return 'kept';
  if (isForeign) return 'any';
  return stream ? 'events' : 'whole';
}

/** svc reads the protocols that it knows. The package has only made the request then. */
async function readParts(
  stream: ReadableStream<LanguageModelV4StreamPart>,
  sdk: SdkFetch,
  { reads, returns }: Adapter,
  context: EventAnswerContext & { request: RunRequest; limits: Limits },
): Promise<AsyncIterable<OutputPart>> {
  if (reads === null || sdk.kept === null) return readAnswer(stream, { ...context, returns });
  for await (const part of stream)
    if (part.type === 'stream-start') refuseUnsupported(part.warnings);
  const json_tool = findAddedTool(sdk.kept.sent, context.request);
  return readEvents(sdk.kept.body, reads({ ...context, json_tool }), context);
}

/** The tool that a package adds, for a model that gives JSON only as arguments. */
function findAddedTool(sent: unknown, { response_format, tools = [] }: RunRequest): string | null {
  if (response_format?.schema == null || typeof sent !== 'string') return null;
  const known = new Set(tools.map(({ name }) => name));
  const names = listOf(asRecord(JSON.parse(sent)).tools)
    .flatMap((tool) => [tool, ...listOf(asRecord(tool).functionDeclarations)])
    .map((tool) => asRecord(tool).name);
  const added = names.find((name) => typeof name === 'string' && !known.has(name));
  return typeof added === 'string' ? added : null;
}

interface Opening {
  adapter: Adapter;
  isStream: boolean;
  signal: AbortSignal;
}

/** The parts of the answer, as a stream or made of a whole answer. */
async function openAnswer(
  model: LanguageModelV4,
  request: RunRequest,
  { adapter, isStream, signal }: Opening,
): Promise<ReadableStream<LanguageModelV4StreamPart>> {
  const options = {
    ...callOptions(request, adapter.returns),
    providerOptions: adapter.requestOptions(request),
    abortSignal: signal,
  };
  return isStream
    ? (await model.doStream(options)).stream
    : streamOfWhole(await model.doGenerate(options));
}

type Generated = Awaited<ReturnType<LanguageModelV4['doGenerate']>>;

/** The parts of a whole answer, so that it is read and checked like a stream. */
function streamOfWhole({ content, finishReason, usage, warnings }: Generated) {
  return new ReadableStream<LanguageModelV4StreamPart>({
    start(controller) {
      controller.enqueue({ type: 'stream-start', warnings });
      for (const [index, part] of content.entries()) {
        const id = '0';
        if (part.type === 'text' || part.type === 'reasoning') {
          const { type, text: delta, providerMetadata: own } = part;
          // Several texts of one thought have the same.
          const next = content[index + 1]?.providerMetadata;
          const isLast = own !== undefined && !isDeepStrictEqual(own, next);
          const metadata = isLast ? { providerMetadata: own } : {};
          controller.enqueue({ type: `${type}-delta`, id, delta, ...metadata });
        } else if (part.type === 'tool-call' || part.type === 'file') controller.enqueue(part);
      }
      controller.enqueue({ type: 'finish', finishReason, usage });
      controller.close();
    },
  });
}

/**
 * Throws capability_missing for an option that the AI SDK has no place for: the request would be
 * answered without it. Families have places for the two that are named.
 */
function refuseUnsendable(request: RunRequest, adapter: Adapter): void {
  const { hasSingleCalls, continues, hears } = adapter;
  if (!continues) refuseContinued(request);
  const heard = request.messages.findIndex(({ content }) => content.some(isAudio));
  if (heard !== -1 && !hears)
    throw new SvcError('capability_missing', 'The API of the provider takes no audio.', {
      param: `messages.${heard}`,
    });
  for (const [name, { sdk }] of effectiveRows(request))
    if (
      sdk === undefined &&
      !(name === 'parallel_tool_calls' ? hasSingleCalls : name === 'verbosity')
    )
      throw unsupportedError(name);
}

const isAudio = ({ type }: MessagePart) => type === 'audio';

/**
 * The models that the provider lists. Without a list, only the package and the credentials are
 * checked: the address would charge for more.
 */
async function knownModels(
  options: SdkOptions,
  adapter: Adapter,
  upstream: Upstream,
  signal: AbortSignal,
): Promise<ModelRecord[]> {
  const { listCall } = adapter;
  if (listCall !== null) return listModels(options, new Exchange(upstream), listCall, signal);
  const key = await options.keys.read(options.config);
  await adapter.load();
  if (key === null) await adapter.credentials();
  return [];
}

/** Texts of one request where the package names no bound. */
const BATCH_TEXTS = 96;
/** The schema of a package that the user names looks at each number. */
const FOREIGN_BATCH_TEXTS = 24;

/** Asks for vectors, one batch after the other. Throws SvcError; after an abort, anything. */
async function embedTexts(
  listing: Listing,
  adapter: Adapter,
  upstream: Upstream,
  { texts, options: { dimensions }, ...request }: EmbedRequest,
  signal: AbortSignal,
): Promise<Embedding> {
  const model = adapter.nameForRequest(request.model);
  const secrets = await readSecrets(listing, texts);
  const asking = { key: secrets.place, model, secrets };
  const providerOptions = dimensions === undefined ? {} : adapter.dimensions(dimensions);
  // Such a package may do anything with a vector.
  const { isForeign } = adapter;
  const apart = isForeign ? null : new Vectors();
  const sdk = new SdkFetch(upstream, asking, { expected: apart ?? 'vectors' }, signal);
  const batchMax = isForeign ? FOREIGN_BATCH_TEXTS : BATCH_TEXTS;
  const vectors: number[][] = [];
  let input_tokens: number | null = 0;
  try {
    const provider = await adapter.provider(secrets.key, sdk.fetch);
    const embedding = provider.embeddingModel?.(model);
    if (embedding === undefined)
      throw new SvcError('capability_missing', 'The provider computes no embeddings.');
    const batch = Math.min((await embedding.maxEmbeddingsPerCall) ?? batchMax, batchMax);
    for (let from = 0; from < texts.length; from += batch) {
      const values = texts.slice(from, from + batch);
      const { embeddings, usage } = await embedding.doEmbed({
        values,
        providerOptions,
        abortSignal: signal,
      });
      if (embeddings.length !== values.length)
        throw notRead(`${embeddings.length} vectors for ${values.length} texts`);
      for (const each of embeddings) vectors.push(apart?.at(each) ?? each);
      input_tokens = tokensSoFar(input_tokens, usage?.tokens);
    }
    return { vectors, input_tokens };
  } catch (thrown) {
    throw signal.aborted ? thrown : requestFailure(thrown, asking);
  } finally {
    await sdk.end();
  }
}
