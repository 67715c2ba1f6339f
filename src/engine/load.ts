import { stat } from 'node:fs/promises';
import { availableParallelism, cpus } from 'node:os';
import { basename } from 'node:path';
import { type Attention, isQuantized } from '../contract/attention.ts';
import type { EngineLoaded } from '../contract/loaded-models.ts';
import { SvcError } from '../errors.ts';
import { betterBuild, ENGINE_VERSION } from '../home/engine-builds.ts';
import { LOCAL_RUNS } from '../limits.ts';
import type { ConfidenceRule } from './confidence.ts';
import { Decoder } from './decode/decoder.ts';
import { checkDraft, DraftModel } from './decode/draft-model.ts';
import { States } from './decode/states.ts';
import { knowsReasoningTags } from './form.ts';
import { addMeasured, readMeasured } from './measured/file.ts';
import { findGain } from './measured/gain.ts';
import { idleSince, readUse, type Use } from './measured/idle.ts';
import { measureSpeed, ownClock, TOGETHER } from './measured/speed.ts';
import { findThreads, machineKey, type ThreadsOptions } from './measured/threads.ts';
import { RELEASE } from './native/abi.ts';
import type { Context, ContextOptions } from './native/context.ts';
import type { Model, Token } from './native/model.ts';
import type { StopFlags } from './native/stop-flags.ts';
import { openModel, startLlama, tooLarge } from './open-model.ts';
import { controlTextsOf, Structure, stopTokens } from './prompt.ts';
import { keyOf, type LoadOrder } from './protocol/messages.ts';
import { chooseTemplate } from './template/choose.ts';
import type { ChatTemplate } from './template/template.ts';
import { withinTime } from './within-time.ts';

/** A model in memory, with one context that several runs share. */
export interface LoadedModel {
  model: Model;
  /** Null: the model continues the text of a prompt as it is. */
  template: ChatTemplate | null;
  /** The control tokens that no text of a conversation may become. */
  structure: Structure;
  /** Answers at one time. */
  parallel: number;
  /** Computes the tokens of all runs. */
  decoder: Decoder;
  /** Of sequences that cannot forget their last tokens. Null: they can. */
  states: States | null;
  /** The context lives as long as its decoder. */
  context: Context;
  /** Renders the chat template for an order. Without `id` it is for the load. */
  rendered: <T>(work: () => T, id?: number) => T;
  /** Does work that a schema may make long. Throws engine_timed_out. */
  limited: <T>(work: () => T) => T;
  /** Tokens that end an answer, besides those of the model file. */
  stops: ReadonlySet<Token>;
  /** Tokens of one run, prompt and answer together. */
  context_length: number;
  /** Tokens of a prompt in one batch. */
  batch: number;
  threads: Threads;
  /** Runs that need not be exact are computed in one batch. */
  batching: boolean;
  /** The cost of one more token in a batch. 1 is the cost of a token by itself. */
  tokenCost: number;
  /** Guesses its tokens. Null: no model does. */
  draft: DraftModel | null;
  /** Every answer is the same with and without earlier runs, not only with a seed. */
  repeatable: boolean;
  built_in: boolean;
  /** The confidence rule, and the tokens of the answer that replaces a declined one. */
  gate: ConfidenceRule | null;
  fallback: Token[];
  /** Whether its template or vocabulary has the tags `<think>` and `</think>`. */
  knowsTags: boolean;
  /** How the control tokens are spelled. */
  controlTexts: ReadonlyMap<number, string>;
  /** What computes a sequence, besides the model: another one computes or keeps it otherwise. */
  engineKey: string;
  info: EngineLoaded;
}

export interface Threads {
  /** The fastest number for one token. */
  alone: number;
  /** The fastest number for several tokens at once. */
  wide: number;
  /** Other work may make fewer faster. */
  mayChange: boolean;
}

/** The signal is checked between batches, so a slow processor gets small ones. */
const BATCH_CPU = 128;
const BATCH_GPU = 512;
/**
 * Tokens of several prompts in one batch. A processor needs three times as long for 120 tokens as
 * for 40, so the first of three prompts would only be late. Few tokens share the reading of
 * weights.
 */
const TOGETHER_CPU = 32;

/**
 * Loads a model file. Throws engine_missing, model_invalid, or engine_failed for too little memory.
 */
export async function loadModel(
  order: LoadOrder,
  onProgress: (loaded: number) => boolean,
  stops?: StopFlags,
  rendered: LoadedModel['rendered'] = (work) => work(),
): Promise<LoadedModel> {
  const before = readUse();
  const available = Math.max(1, availableParallelism());
  const llama = startLlama(order);
  const model = await openModel(llama, order, onProgress);
  refuseEmbedders(model);
  checkCache(model, order.attention);
  const limited = <T>(work: () => T) =>
    order.template_ms === null
      ? work()
      : withinTime(order.template_ms, 'Making a grammar of the schema', work);
  const chat_template = model.metadata.get('tokenizer.chat_template');
  const spelled = (token: Token | null) => (token === null ? '' : model.textOf(token));
  const { source, template, name, problem } = rendered(() =>
    chooseTemplate(
      {
        source: typeof chat_template === 'string' ? chat_template : null,
        bos_token: spelled(model.tokens.bos),
        eos_token: spelled(model.tokens.eos),
        vocabulary: { includes: (text) => model.hasToken(text) },
      },
      order.templates,
    ),
  );
  const { built_in, gate, fallback } = readOwnMetadata(model);
  const threads = await chooseThreads(model, order, available, built_in, before);
  const gain =
    order.batching === 'auto' && !built_in ? await gainOf(model, order, available) : null;
  const batching = gain === null ? order.batching === true : gain >= GAIN_LEAST;
  const batch = llama.gpu === null ? BATCH_CPU : BATCH_GPU;
  const draft = batching ? await openDraft(model, order, { batch, threads }) : null;
  const context_length = Math.min(order.context_tokens, model.trainContextSize);
  const context = openContext(model, {
    sequences: order.parallel,
    contextSize: context_length,
    batch,
    threads: Math.max(threads.alone, threads.wide),
    attention: order.attention,
    ...(stops === undefined ? {} : { stops }),
  });
  const parallel = context.sequences;
  const decoder = new Decoder(context, threads.alone, togetherOf(model), threads.wide);
  console.error(`computed on ${llama.gpu ?? 'cpu'}`);
  const many = `${togetherMost(order)} together have ${gain} percent of the speed of one`;
  const speed = gain === null ? '' : `: ${many}`;
  console.error(`runs are computed ${batching ? 'in one batch' : 'one by one'}${speed}`);
  return {
    model,
    template,
    structure: new Structure(model, source),
    parallel,
    context_length,
    batch,
    built_in,
    gate,
    decoder,
    context,
    states: cannotGoBack(model) ? new States(decoder) : null,
    threads,
    batching,
    tokenCost: tokenCost(gain, togetherMost(order)),
    draft,
    repeatable: order.batching === false,
    rendered,
    limited,
    stops: stopTokens({ model, template }),
    engineKey: engineKeyOf(context, batch, order.attention),
    fallback: model.tokenize(fallback),
    knowsTags: knowsReasoningTags(model, source),
    controlTexts: controlTextsOf(model),
    info: infoOf(model, before.at, {
      threads: threads.alone,
      context_length,
      parallel,
      chat_template: name,
      ...(problem === null ? {} : { template_problem: problem }),
      batching,
      ...(await gpuFacts(model, order)),
      attention: order.attention,
    }),
  };
}

/** Throws engine_failed for types that a cache of this model cannot have. */
function checkCache(model: Model, { cache_keys, cache_values }: Attention): void {
  const width = model.numberOf('embedding_length') ?? 0;
  const head = width / (model.numberOf('attention.head_count') ?? 1);
  const check = (setting: string, type: Attention['cache_keys'], length: string) => {
    const numbers = model.numberOf(`attention.${length}`) ?? head;
    if (isQuantized(type) && numbers % CACHE_BLOCK !== 0)
      throw unfitError(
        `its heads have ${numbers} numbers, and ${type} needs a multiple of ${CACHE_BLOCK}`,
        setting,
      );
  };
  check('engine_cache_keys', cache_keys, 'key_length');
  check('engine_cache_values', cache_values, 'value_length');
}

function unfitError(why: string, setting: string): SvcError {
  const message = `The cache of the model cannot have the type of ${setting}: ${why}.`;
  const help = `Set ${setting} to f16, then run: svc restart`;
  return new SvcError('engine_failed', `${message} ${help}`, { retryable: false });
}

/** Numbers of a quantized type that share a scale. */
const CACHE_BLOCK = 32;

/**
 * Throws capability_missing for a model that reads a text in both directions, since it has no next
 * token, and for a model that scores texts.
 */
function refuseEmbedders(model: Model): void {
  if (model.isRanker) throw cannot('The model ranks documents. It writes no answers.');
  if (model.metadata.get(`${model.architecture}.attention.causal`) === false)
    throw cannot('The model computes embeddings. It writes no answers.');
}

/** Whether the memory of a sequence cannot go back to an earlier token. */
function cannotGoBack({ kind }: Model): boolean {
  return kind.isHybrid || kind.isRecurrent;
}

/** A batch of several prompts that ends early is computed again, which needs a way back. */
function togetherOf(model: Model): number {
  if (cannotGoBack(model)) return 0;
  return model.llama.gpu === null ? TOGETHER_CPU : BATCH_GPU;
}

export function cannot(message: string): SvcError {
  return new SvcError('capability_missing', message, { param: 'model' });
}

/**
 * Null: no draft model is named. Throws model_invalid, with its name, for a draft that does not
 * fit.
 */
async function openDraft(
  model: Model,
  order: LoadOrder,
  { batch, threads }: { batch: number; threads: Threads },
): Promise<DraftModel | null> {
  if (order.draft === undefined) return null;
  const own = { ...order, path: order.draft, parallel: 1, adapters: [] };
  const draft = await openModel(model.llama, own, () => true);
  refuseEmbedders(draft);
  checkDraft(model, draft, basename(own.path, '.gguf'));
  const contextSize = Math.min(order.context_tokens, draft.trainContextSize);
  const { attention } = order;
  const options = { sequences: 1, contextSize, batch, threads: threads.alone, attention };
  return new DraftModel(openContext(draft, options), model, { batch, threads: threads.alone });
}

/** Reduces the number of parallel runs until the context fits in memory. */
function openContext(model: Model, options: ContextOptions): Context {
  try {
    return model.createContext(options);
  } catch (error) {
    if (options.sequences > 1)
      return openContext(model, { ...options, sequences: Math.floor(options.sequences / 2) });
    throw tooLarge(error);
  }
}

/** Measures unknown figures. A number that the user set is that of every batch. */
async function chooseThreads(
  model: Model,
  order: LoadOrder,
  available: number,
  built_in: boolean,
  before: Use,
): Promise<Threads> {
  const fixed = order.threads ?? (built_in ? BUILT_IN_THREADS : null);
  if (fixed !== null) return { alone: fixed, wide: fixed, mayChange: false };
  const idle = () => idleSince(before);
  const options = { ...(await measurementOf(model, order, available)), idle };
  const find = async (kind: string, answers: number) => {
    const { threads, measured } = await findThreads({
      ...options,
      modelKey: options.modelKey + kind,
      measure: (threads, limitMs) => measureSpeed(model, { answers, threads, limitMs }),
    });
    const speeds = JSON.stringify(measured);
    console.error(`threads${kind} ${threads}, tokens per second by threads ${speeds}`);
    return threads;
  };
  const alone = await find('', 1);
  return { alone, wide: await find(' together', TOGETHER), mayChange: alone > 1 };
}

/** Its tokens take a millisecond: threads that wait for each other would double it. */
const BUILT_IN_THREADS = 1;

/** Another way to compute tokens has another speed. */
const DECODER = 'decoder 2';

/** The fields that identify a measurement. */
async function measurementOf(
  model: Model,
  order: LoadOrder,
  available: number,
): Promise<Omit<ThreadsOptions, 'measure' | 'idle'>> {
  const { size, mtimeMs } = await stat(order.path);
  return {
    modelKey: `${order.path} ${size} ${mtimeMs}`,
    engineKey: `llama.cpp ${ENGINE_VERSION} ${model.llama.gpu ?? 'cpu'} ${DECODER}`,
    file: order.threads_file,
    available,
    use: readUse,
  };
}

function engineKeyOf({ model, contextSize }: Context, batch: number, attention: Attention): string {
  const { arch, platform } = process;
  const { gpu } = model.llama;
  const build = [ENGINE_VERSION, RELEASE.version, DECODER];
  const machine = [platform, arch, cpus()[0]?.model, gpu, model.gpuLayers];
  return JSON.stringify([...build, ...machine, contextSize, batch, ...Object.values(attention)]);
}

/** Time for each of the two measurements. A slow token may exceed it. */
const MEASURE_MS = 200;
/** Percent of the speed of one run: less is no reason to give up exact answers. */
const GAIN_LEAST = 115;

/**
 * For as many answers as the model has at one time, by the engine and the machine. In one thread: a
 * second thread that waits for a core of a busy machine also counts as computing.
 */
async function gainOf(model: Model, order: LoadOrder, available: number): Promise<number> {
  const options = await measurementOf(model, order, available);
  const answers = togetherMost(order);
  const asked = { threads: 1, limitMs: MEASURE_MS, clock: ownClock(model) };
  return findGain({
    ...options,
    key: `${machineKey(options)}, ${answers} at once`,
    alone: () => measureSpeed(model, asked),
    together: () => measureSpeed(model, { ...asked, answers }),
  });
}

/** One answer at a time shares its batches with its guesses. */
function togetherMost({ parallel }: LoadOrder): number {
  return parallel > 1 ? Math.min(parallel, LOCAL_RUNS.most) : LOCAL_RUNS.least;
}

/** The cost of each token but the first one, from the gain of so many. Null: not measured. */
function tokenCost(gain: number | null, tokens: number): number {
  if (gain === null) return TOKEN_COST.usual;
  const cost = ((100 * tokens) / gain - 1) / (tokens - 1);
  return Math.max(TOKEN_COST.least, cost);
}

/** `usual`: of a small model on a processor. `least`: a short measurement can show none. */
const TOKEN_COST = { usual: 0.5, least: 0.1 };

/** The facts that the daemon gets about a loaded model. */
export function infoOf(
  { llama, gpuLayers }: Pick<Model, 'llama' | 'gpuLayers'>,
  startedAt: number,
  chosen: Omit<EngineLoaded, 'load_ms' | 'gpu' | 'gpu_layers'>,
): EngineLoaded {
  return {
    ...chosen,
    load_ms: Math.round(performance.now() - startedAt),
    gpu: llama.gpu ?? 'cpu',
    gpu_layers: gpuLayers,
  };
}

/**
 * The GPU figures of its load and of the load before it. Empty if the user wants no layer there.
 */
export async function gpuFacts(
  { llama, gpuLayers }: Pick<Model, 'llama' | 'gpuLayers'>,
  { path, purpose, gpu_layers, threads_file, builds }: LoadOrder,
): Promise<Pick<EngineLoaded, 'gpu_layers_before' | 'gpu_bytes' | 'better_build'>> {
  if (gpu_layers === 0) return {};
  const key = `${keyOf(path, purpose)} | ${gpu_layers}`;
  const before = (await readMeasured(threads_file, 'gpu_layers'))[key];
  const facts = before === undefined ? {} : { gpu_layers_before: before };
  if (llama.gpu === null) {
    const better_build = builds === undefined ? null : betterBuild(builds);
    return better_build === null ? facts : { ...facts, better_build };
  }
  await addMeasured(threads_file, 'gpu_layers', key, gpuLayers);
  const { total } = llama.gpuMemory();
  await addMeasured(threads_file, 'gpu_bytes', llama.gpu, total);
  return { ...facts, gpu_bytes: total };
}

interface OwnMetadata {
  /** The model belongs to this program. */
  built_in: boolean;
  gate: ConfidenceRule | null;
  /** The answer that replaces a declined one. */
  fallback: string;
}

/**
 * Reads the `svc` metadata of the built-in model. A file with an incomplete or wrong form counts as
 * without.
 */
function readOwnMetadata({ metadata }: Model): OwnMetadata {
  const tokens = metadata.get('svc.confidence.tokens');
  const minimum = metadata.get('svc.confidence.minimum');
  const fallback = metadata.get('svc.confidence.fallback');
  const isGated =
    typeof tokens === 'number' && typeof minimum === 'number' && typeof fallback === 'string';
  return {
    built_in: metadata.get('svc.builtin') === true,
    gate: isGated ? { tokens, minimum } : null,
    fallback: isGated ? fallback : '',
  };
}
