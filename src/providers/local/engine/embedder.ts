import type { LlamaModel, Token } from 'node-llama-cpp';
import type { EngineLoaded } from '../../../contract/loaded-models.ts';
import { asSvcError, SvcError } from '../../../errors.ts';
import type { FromEngine } from '../from-engine.ts';
import { startLlama } from './llama.ts';
import { cannot, gpuFacts, infoOf, isRanker, openModel, tooLarge } from './load.ts';
import type { EmbedOrder, LoadOrder } from './messages.ts';

/** A model in memory that computes vectors, and writes no answers. */
export interface LoadedEmbedder {
  model: LlamaModel;
  context: VectorContext;
  info: EngineLoaded;
}

/** Computes one text after the other. `query`: what it is scored for, or empty. */
interface VectorContext {
  /** With the control tokens around the text. */
  lengthOf(text: Token[], query: Token[]): number;
  vectorOf(text: Token[], query: Token[]): Promise<readonly number[]>;
}

/**
 * Loads a model file for embeddings, or for the scores of documents. The whole context is one
 * batch, because the vector is of one batch. Throws engine_missing, model_invalid,
 * capability_missing, engine_failed.
 */
export async function loadEmbedder(
  order: LoadOrder,
  onProgress: (loaded: number) => void,
): Promise<LoadedEmbedder> {
  const startedAt = performance.now();
  const threads = order.threads ?? 1;
  const llama = await startLlama(threads, order);
  const model = await openModel(llama, order, onProgress);
  const { hasEncoder, hasDecoder } = model.fileInsights;
  if (hasEncoder && hasDecoder)
    throw cannot(
      'The local engine computes no embeddings with a model that has an encoder and a decoder.',
    );
  const contextSize = Math.min(order.context_tokens, model.trainContextSize);
  const options = { contextSize, batchSize: contextSize, threads };
  const open = order.purpose === 'reranking' ? openRanker : openVectors;
  return {
    model,
    context: await open(model, options),
    info: infoOf(model, startedAt, {
      threads,
      context_length: contextSize,
      parallel: 1,
      chat_template: 'none',
      batching: false,
      ...(await gpuFacts(model, order)),
    }),
  };
}

interface ContextOptions {
  contextSize: number;
  batchSize: number;
  threads: number;
}

async function openVectors(model: LlamaModel, options: ContextOptions): Promise<VectorContext> {
  if (isRanker(model)) throw cannot('The model ranks documents. It computes no embeddings.');
  const context = await model.createEmbeddingContext(options).catch((cause: unknown) => {
    throw tooLarge(cause);
  });
  return {
    lengthOf: (text) => context.calculateInputLength([...text]),
    vectorOf: async (text) => (await context.getEmbeddingFor([...text])).vector,
  };
}

/** A score is a vector of one number, from 0 to 1. */
async function openRanker(model: LlamaModel, options: ContextOptions): Promise<VectorContext> {
  const missing = isRanker(model) ? 'separator of texts' : 'weights for scores';
  if (!model.fileInsights.supportsRanking)
    throw cannot(`The model ranks no documents: its file has no ${missing}.`);
  const context = await model.createRankingContext(options).catch((cause: unknown) => {
    throw tooLarge(cause);
  });
  const { eos, sep } = model.tokens;
  // The library ends the input with the end token alone, which the tokenizer of BERT has not.
  const ended = (text: Token[]) => (eos === null && sep !== null ? [...text, sep] : text);
  return {
    lengthOf: (text, query) => context.calculateInputLength(query, ended(text)),
    vectorOf: async (text, query) => [await context.rank(query, ended(text))],
  };
}

/**
 * The orders for vectors, and for scores.
 *
 * 1. Orders are computed one after the other, each text by itself, in the order of the texts.
 * 2. Each order gets its vectors, then exactly one of finished, failed and stopped.
 *
 * The daemon bounds its open orders, and the texts of each.
 */
export class Embedder {
  private readonly loaded: LoadedEmbedder;
  private readonly send: (message: FromEngine) => void;
  private readonly open = new Set<number>();
  private last: Promise<void> = Promise.resolve();

  constructor(loaded: LoadedEmbedder, send: (message: FromEngine) => void) {
    this.loaded = loaded;
    this.send = send;
  }

  start(order: EmbedOrder): void {
    this.open.add(order.id);
    this.last = this.last.then(async () => {
      this.send(await this.outcome(order));
      this.open.delete(order.id);
    });
  }

  /** Between two texts. */
  stop(id: number): void {
    this.open.delete(id);
  }

  private async outcome({ id, texts, query, dimensions }: EmbedOrder): Promise<FromEngine> {
    const { model, context } = this.loaded;
    let input_tokens = 0;
    try {
      const queryTokens = query === null ? null : model.tokenize(query, false, ...TRIMMED);
      const tokens = texts.map((text, index) => this.tokensOf(text, index, queryTokens));
      for (const each of tokens) {
        // Messages are received between two texts.
        await new Promise((next) => setImmediate(next));
        if (!this.open.has(id)) return { type: 'stopped', id };
        const vector = await context.vectorOf(each, queryTokens ?? []);
        input_tokens += context.lengthOf(each, queryTokens ?? []);
        const wanted = queryTokens === null ? unit(shortened(vector, dimensions)) : [...vector];
        this.send({ type: 'vector', id, vector: wanted });
      }
      const usage = { input_tokens, output_tokens: 0 };
      return { type: 'finished', id, finish_reason: 'stop', usage };
    } catch (thrown) {
      const error = asSvcError(thrown, 'engine_failed');
      if (error.code === 'engine_failed') console.error(`embedding ${id}:`, error.cause ?? error);
      return { type: 'failed', id, error: error.summary() };
    }
  }

  /** Control tokens in a text are text. Throws context_length_exceeded. */
  private tokensOf(text: string, index: number, query: Token[] | null): Token[] {
    const { model, context, info } = this.loaded;
    const tokens = model.tokenize(text, false, ...(query === null ? [] : TRIMMED));
    const count = context.lengthOf(tokens, query ?? []);
    const most = info.context_length - 1;
    if (count <= most) return tokens;
    const has =
      query === null
        ? `Text ${index} has ${count} tokens; the model computes vectors of at most ${most}.`
        : `Document ${index} has ${count} tokens with the query; the model scores at most ${most}.`;
    throw new SvcError('context_length_exceeded', has, {
      param: query === null ? 'input' : `documents.${index}`,
    });
  }
}

/** Throws invalid_request for a longer vector than the model has. */
function shortened(vector: readonly number[], dimensions: number | null): readonly number[] {
  if (dimensions === null) return vector;
  if (dimensions <= vector.length) return vector.slice(0, dimensions);
  throw new SvcError(
    'invalid_request',
    `The vectors of the model have ${vector.length} numbers, fewer than ${dimensions}.`,
    { param: 'dimensions' },
  );
}

/** A vector of length 1 in the same direction, so that products compare vectors. */
function unit(vector: readonly number[]): number[] {
  const length = Math.hypot(...vector);
  return vector.map((number) => (length === 0 ? number : number / length));
}

/** Texts of a ranker stand behind others. */
const TRIMMED = ['trimLeadingSpace'] as const;
