import type { EngineLoaded } from '../contract/loaded-models.ts';
import { SvcError } from '../errors.ts';
import { endOfFailure, readAll } from './ends.ts';
import { cannot, gpuFacts, infoOf } from './load.ts';
import type { Context } from './native/context.ts';
import type { Model, Token } from './native/model.ts';
import { openModel, startLlama, tooLarge } from './open-model.ts';
import { withBegin } from './prompt.ts';
import type { FromEngine } from './protocol/from-engine.ts';
import type { EmbedOrder, LoadOrder } from './protocol/messages.ts';

/** A model in memory that computes vectors, and writes no answers. */
export interface LoadedEmbedder {
  context: Context;
  /** Makes the tokens of a text, with those around it. `query`: the text to score it against. */
  tokensFor(query: string | null): (text: string) => Token[];
  /** What of the numbers that the model computes is the vector. */
  read(numbers: Float32Array): number[];
  /** Numbers that the model computes for a text. */
  length: number;
  info: EngineLoaded;
}

/** Texts that are computed together at most, and their tokens. A longer text is alone. */
const TOGETHER = 64;
const TOGETHER_TOKENS = 512;

/**
 * Loads a model file for embeddings, or for the scores of documents. The whole context is one
 * batch, because the vector is of one batch. Throws engine_missing, model_invalid,
 * capability_missing, engine_failed.
 */
export async function loadEmbedder(
  order: LoadOrder,
  onProgress: (loaded: number) => boolean,
): Promise<LoadedEmbedder> {
  const startedAt = performance.now();
  const threads = order.threads ?? 1;
  const model = await openModel(startLlama(order), order, onProgress);
  if (model.kind.hasEncoder && model.kind.hasDecoder)
    throw cannot(
      'The local engine computes no embeddings with a model that has an encoder and a decoder.',
    );
  const contextSize = Math.min(order.context_tokens, model.trainContextSize);
  const isRanking = order.purpose === 'reranking';
  const form = isRanking ? rankingOf(model) : embeddingOf(model);
  return {
    ...form,
    context: contextOf(model, isRanking ? 'scores' : 'embeddings', contextSize, threads),
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

function contextOf(
  model: Model,
  vectors: 'embeddings' | 'scores',
  contextSize: number,
  threads: number,
): Context {
  try {
    const batch = contextSize;
    return model.createContext({ contextSize, batch, sequences: TOGETHER, threads, vectors });
  } catch (cause) {
    throw tooLarge(cause);
  }
}

type Form = Pick<LoadedEmbedder, 'tokensFor' | 'read' | 'length'>;

function embeddingOf(model: Model): Form {
  if (model.isRanker) throw cannot('The model ranks documents. It computes no embeddings.');
  return {
    tokensFor: () => (text) => model.tokenizeWhole(text),
    read: (numbers) => [...numbers],
    length: model.vectorLength,
  };
}

/** A score is a vector of one number, from 0 to 1. */
function rankingOf(model: Model): Form {
  const { bos, eos, sep } = model.tokens;
  const template = model.metadata.get('tokenizer.chat_template.rerank');
  const isWhole = typeof template === 'string' && PLACES.every((place) => template.includes(place));
  const missing = model.isRanker ? 'separator of texts' : 'weights for scores';
  if (!model.isRanker || (eos === null && sep === null && !isWhole))
    throw cannot(`The model ranks no documents: its file has no ${missing}.`);
  const inner = (text: string) => model.tokenize(text, false, true);
  const marks = (...all: (Token | null)[]) => all.filter((mark) => mark !== null);
  const form: (Token[] | string)[] = isWhole
    ? template
        .split(/(\{query\}|\{document\})/)
        .map((part) => (PLACES.includes(part) ? part : model.tokenize(part, true, true)))
    : [marks(bos), '{query}', marks(eos, sep), '{document}', eos === null ? marks(sep) : [eos]];
  const tokensFor: Form['tokensFor'] = (query) => {
    const asked = inner(query ?? '');
    return (text) => {
      const tokens = form.flatMap((part) =>
        part === '{query}' ? asked : typeof part === 'string' ? inner(text) : part,
      );
      return isWhole ? withBegin(model, tokens) : tokens;
    };
  };
  const isScore = SCORED.has(model.architecture);
  const read = ([odds = 0]: Float32Array) => [isScore ? odds : 1 / (1 + Math.exp(-odds))];
  return { tokensFor, read, length: 1 };
}

const PLACES = ['{query}', '{document}'];
/** Architectures whose number is a score already. */
const SCORED: ReadonlySet<unknown> = new Set(['qwen3', 'qwen3vl']);

/**
 * The orders for vectors, and for scores.
 *
 * 1. Orders are computed one after the other, several texts in one batch, in the order of the
 *    texts.
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

  /** Between two batches. */
  stop(id: number): void {
    this.open.delete(id);
  }

  private async outcome({ id, texts, query, dimensions }: EmbedOrder): Promise<FromEngine> {
    let input_tokens = 0;
    try {
      const tokensOf = this.loaded.tokensFor(query);
      const tokens = texts.map((text, index) => this.fitTokens(tokensOf(text), index, query));
      for (const batch of batchesOf(tokens)) {
        // Messages are received between two batches.
        await new Promise((next) => setImmediate(next));
        if (!this.open.has(id)) return { type: 'stopped', id };
        for (const numbers of this.compute(batch)) {
          const vector = this.loaded.read(numbers);
          const wanted = query === null ? unit(shortenVector(vector, dimensions)) : vector;
          this.send({ type: 'vector', id, vector: wanted });
        }
        input_tokens += batch.reduce((sum, { length }) => sum + length, 0);
      }
      return readAll(id, input_tokens);
    } catch (thrown) {
      return endOfFailure(id, thrown);
    }
  }

  private compute(batch: readonly Token[][]): Float32Array[] {
    const { context, length } = this.loaded;
    context.clear();
    context.initBatch();
    const last = batch.map((tokens, sequence) => {
      const all = tokens.map((_, index) => index);
      return context.addToBatch(sequence, 0, tokens, all).at(-1) ?? 0;
    });
    context.decodeBatch();
    return last.map((index, sequence) => context.vector(sequence, index, length));
  }

  /** Throws context_length_exceeded. */
  private fitTokens(tokens: Token[], index: number, query: string | null): Token[] {
    const { info } = this.loaded;
    const most = info.context_length - 1;
    if (tokens.length <= most) return tokens;
    const count = tokens.length;
    const has =
      query === null
        ? `Text ${index} has ${count} tokens; the model computes vectors of at most ${most}.`
        : `Document ${index} has ${count} tokens with the query; the model scores at most ${most}.`;
    throw new SvcError('context_length_exceeded', has, {
      param: query === null ? 'input' : `documents.${index}`,
    });
  }
}

/** Texts that are computed together, in their order. */
function* batchesOf(texts: readonly Token[][]): Generator<Token[][]> {
  let batch: Token[][] = [];
  let sum = 0;
  for (const text of texts) {
    if (batch.length === TOGETHER || (batch.length > 0 && sum + text.length > TOGETHER_TOKENS)) {
      yield batch;
      [batch, sum] = [[], 0];
    }
    batch.push(text);
    sum += text.length;
  }
  if (batch.length > 0) yield batch;
}

/** Throws invalid_request for a longer vector than the model has. */
function shortenVector(vector: readonly number[], dimensions: number | null): readonly number[] {
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
