import type { LlamaEmbeddingContext, LlamaModel, Token } from 'node-llama-cpp';
import type { EngineLoaded } from '../../../contract/loaded-models.ts';
import { asSvcError, SvcError } from '../../../errors.ts';
import type { FromEngine } from '../from-engine.ts';
import { startLlama } from './llama.ts';
import { infoOf, openModel, tooLarge } from './load.ts';
import type { EmbedOrder, LoadOrder } from './messages.ts';

/** A model in memory that computes vectors, and writes no answers. */
export interface LoadedEmbedder {
  model: LlamaModel;
  context: LlamaEmbeddingContext;
  info: EngineLoaded;
}

/**
 * Loads a model file for embeddings. The whole context is one batch, because the vector is the mean
 * of one batch. Throws engine_missing, model_invalid, capability_missing, engine_failed.
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
    throw new SvcError(
      'capability_missing',
      'The local engine computes no embeddings with a model that has an encoder and a decoder.',
      { param: 'model' },
    );
  const contextSize = Math.min(order.context_tokens, model.trainContextSize);
  const options = { contextSize, batchSize: contextSize, threads };
  const context = await model.createEmbeddingContext(options).catch((cause: unknown) => {
    throw tooLarge(cause);
  });
  return {
    model,
    context,
    info: infoOf(model, startedAt, {
      threads,
      context_length: contextSize,
      parallel: 1,
      chat_template: 'none',
      batching: false,
    }),
  };
}

/**
 * The orders for vectors.
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

  private async outcome({ id, texts, dimensions }: EmbedOrder): Promise<FromEngine> {
    let input_tokens = 0;
    try {
      const tokens = texts.map((text, index) => this.tokensOf(text, index));
      for (const each of tokens) {
        // Messages are received between two texts.
        await new Promise((next) => setImmediate(next));
        if (!this.open.has(id)) return { type: 'stopped', id };
        const { vector } = await this.loaded.context.getEmbeddingFor(each);
        input_tokens += this.loaded.context.calculateInputLength(each);
        this.send({ type: 'vector', id, vector: unit(shortened(vector, dimensions)) });
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
  private tokensOf(text: string, index: number): Token[] {
    const { model, context, info } = this.loaded;
    const tokens = model.tokenize(text, false);
    const count = context.calculateInputLength([...tokens]);
    if (count < info.context_length) return tokens;
    throw new SvcError(
      'context_length_exceeded',
      `Text ${index} has ${count} tokens; the model computes vectors of at most ` +
        `${info.context_length - 1}.`,
      { param: 'input' },
    );
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
