import { stat } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import type {
  BatchingOptions,
  ChatWrapper,
  Llama,
  LlamaContext,
  LlamaContextOptions,
  LlamaContextSequence,
  LlamaModel,
  Token,
} from 'node-llama-cpp';
import { SvcError } from '../../../errors.ts';
import type { ConfidenceRule } from '../../mini/confidence.ts';
import { startLlama } from './llama.ts';
import { measureSpeed } from './measure.ts';
import type { Loaded, LoadOrder } from './messages.ts';
import { readOwnMetadata } from './own-metadata.ts';
import { stopTokens, tokenBytesMax } from './prompt.ts';
import { findThreads, type ThreadsFound } from './threads.ts';
import { withinTime } from './time-limit.ts';

/** A model in memory, with one context that several runs share. */
export interface LoadedModel {
  model: LlamaModel;
  wrapper: ChatWrapper;
  sequences: LlamaContextSequence[];
  /** Renders the chat template within its time. Throws SvcError: engine_timed_out. */
  rendered: <T>(work: () => T) => T;
  /** Tokens that end an answer, besides those that the model file names. */
  stops: ReadonlySet<Token>;
  token_bytes_max: number;
  /** Tokens of one run, prompt and answer together. */
  context_length: number;
  /** Tokens of a prompt that are computed in one go. */
  batch: number;
  built_in: boolean;
  /** When an answer is not sure enough, and the tokens of what is said then. */
  gate: ConfidenceRule | null;
  fallback: Token[];
  info: Loaded;
}

/** An abort is looked at between batches; the graphics processor is quick enough for large ones. */
const BATCH_CPU = 128;
const BATCH_GPU = 512;

/**
 * Each run is computed by itself, in turn. Computed together with others, its rounding would depend on who else is there, which can tip
 * a draw: the same seed would not give the same answer, and one that was cut off could not go on the same.
 */
const EACH_BY_ITSELF: BatchingOptions = {
  itemPrioritizationStrategy: ({ items, size }) =>
    items.slice(0, 1).map((item) => ({ item, processAmount: Math.min(item.tokens.length, size) })),
};

/**
 * The template of the built-in model is used as it is. For another model the library first compares the
 * template with those it knows, which takes about a second.
 */
function wrapperOptions({ template_ms }: LoadOrder): { type: 'auto' | 'jinjaTemplate' } {
  return { type: template_ms === null ? 'jinjaTemplate' : 'auto' };
}

/** Loads a model file. Throws SvcError: engine_missing, model_invalid, engine_failed (too little memory). */
export async function loadModel(order: LoadOrder): Promise<LoadedModel> {
  const startedAt = performance.now();
  const available = Math.max(1, availableParallelism());
  const llama = await startLlama(Math.max(available, order.threads ?? 0));
  const model = await openModel(llama, order.path);
  const { resolveChatWrapper } = await import('node-llama-cpp');
  const rendered = <T>(work: () => T) =>
    order.template_ms === null
      ? work()
      : withinTime(order.template_ms, 'Rendering the chat template of the model', work);
  const wrapper = rendered(() => resolveChatWrapper(model, wrapperOptions(order)));
  const { threads, measured } =
    order.threads === null
      ? await chooseThreads(model, order, available)
      : { threads: order.threads, measured: {} };
  const batch = llama.gpu === false ? BATCH_CPU : BATCH_GPU;
  const context_length = Math.min(order.context_tokens, model.trainContextSize);
  const context = await openContext(model, {
    sequences: order.parallel,
    contextSize: context_length,
    batchSize: batch,
    threads,
    ...(order.together ? {} : { batching: EACH_BY_ITSELF }),
  });
  const sequences = Array.from({ length: context.totalSequences }, () => context.getSequence());
  const { built_in, gate, fallback } = readOwnMetadata(model.fileInfo.metadata);
  console.error(
    `threads ${threads}, tokens per second by threads ${JSON.stringify(measured)}, computed on ${llama.gpu || 'cpu'}`,
  );
  return {
    ...{ model, wrapper, sequences, context_length, batch, built_in, gate },
    rendered,
    stops: rendered(() => stopTokens(model, wrapper)),
    token_bytes_max: tokenBytesMax(model),
    fallback: model.tokenize(fallback),
    info: {
      threads,
      context_length,
      parallel: sequences.length,
      load_ms: Math.round(performance.now() - startedAt),
      chat_template: wrapper.wrapperName,
    },
  };
}

async function openModel(llama: Llama, path: string): Promise<LlamaModel> {
  try {
    return await llama.loadModel({ modelPath: path });
  } catch (error) {
    const { InsufficientMemoryError } = await import('node-llama-cpp');
    throw error instanceof InsufficientMemoryError
      ? tooLarge(error)
      : new SvcError('model_invalid', undefined, { cause: error });
  }
}

/** With less memory than all runs need, fewer are answered at one time. */
async function openContext(
  model: LlamaModel,
  options: LlamaContextOptions & { sequences: number },
): Promise<LlamaContext> {
  try {
    return await model.createContext({ ...options, failedCreationRemedy: false });
  } catch (error) {
    if (options.sequences > 1)
      return openContext(model, { ...options, sequences: Math.floor(options.sequences / 2) });
    throw tooLarge(error);
  }
}

async function chooseThreads(
  model: LlamaModel,
  order: LoadOrder,
  available: number,
): Promise<ThreadsFound> {
  const { getModuleVersion } = await import('node-llama-cpp');
  const { size, mtimeMs } = await stat(order.path);
  return findThreads({
    model_key: `${order.path} ${size} ${mtimeMs}`,
    engine_key: `node-llama-cpp ${await getModuleVersion()} ${model.llama.gpu || 'cpu'}`,
    file: order.threads_file,
    available,
    measure: (threads, limit_ms) => measureSpeed(model, threads, limit_ms),
  });
}

function tooLarge(cause: unknown): SvcError {
  return new SvcError(
    'engine_failed',
    'There is too little memory for the model and its context.',
    { cause },
  );
}
