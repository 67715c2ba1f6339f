import type { GgufHeader } from '../../models/gguf/header.ts';
import { filesOfModel } from '../../models/gguf/parts.ts';

/** What the memory of a model depends on. */
export interface ModelShape {
  /** Bytes of all files of the weights. */
  weights: number;
  layers: number;
  /** Width of one token. */
  width: number;
  heads: number;
  /** Numbers of one token that a layer caches. */
  cached: number;
  vocabulary: number;
  /** The context that the model was trained for. */
  context: number;
}

export interface ContextPlan {
  /** Runs at one time, each with its own context. */
  parallel: number;
  /** Tokens of one run. */
  context_tokens: number;
  /** Tokens of one batch. */
  batch?: number;
}

/** The shape from the header of a file. A header without it counts as a model without a context. */
export function shapeOf(
  { architecture, numbers }: Pick<GgufHeader, 'architecture' | 'numbers'>,
  weights: number,
): ModelShape {
  const number = (key: string) => numbers.get(`${architecture}.${key}`);
  const width = number('embedding_length') ?? 0;
  const heads = number('attention.head_count') ?? 1;
  const cachedHeads = number('attention.head_count_kv') ?? heads;
  const head = Math.ceil(width / Math.max(1, heads));
  return {
    weights,
    layers: number('block_count') ?? 0,
    width,
    heads,
    cached:
      cachedHeads *
      ((number('attention.key_length') ?? head) + (number('attention.value_length') ?? head)),
    vocabulary: number('vocab_size') ?? numbers.get('tokenizer.ggml.tokens') ?? 0,
    context: number('context_length') ?? 0,
  };
}

/** Bytes of a model file, with the other files of a split model. */
export async function weightsOf(path: string): Promise<number> {
  const found = await filesOfModel(path).catch(() => null);
  return found?.size_bytes ?? 0;
}

/**
 * An estimate of the memory of an engine process: the weights, the cached context, the buffers of
 * one batch, and the process itself. A test compares it with real processes.
 */
export function memoryNeeds(
  shape: ModelShape,
  { parallel, context_tokens, batch = BATCH }: ContextPlan,
): number {
  const tokens = Math.ceil(Math.min(context_tokens, shape.context) / CELLS) * CELLS;
  const cache = parallel * tokens * shape.layers * shape.cached * BYTES_CACHED;
  const logits = (batch + parallel) * shape.vocabulary;
  const attention = batch * tokens * shape.heads;
  const layer = batch * shape.width * WIDTHS;
  const buffers = (logits + attention + layer) * BYTES_COMPUTED;
  return PROCESS_BYTES + shape.weights + cache + buffers;
}

/**
 * The most parallel runs that fit, with what they need. Fewer than one at a time do not exist, so
 * the result may be above the bound.
 */
export function planFor(
  shape: ModelShape,
  wanted: ContextPlan,
  most: MemoryMost,
): { parallel: number; bytes: number } {
  for (let { parallel } = wanted; ; parallel = Math.floor(parallel / 2)) {
    const bytes = memoryNeeds(shape, { ...wanted, parallel });
    const fits = bytes <= most.bytes && bytes - shape.weights <= most.engine_bytes;
    if (fits || parallel <= 1) return { parallel, bytes };
  }
}

export interface MemoryMost {
  /** Of all models. */
  bytes: number;
  /** Of an engine, besides its weights: one that takes more is killed. */
  engine_bytes: number;
}

/** A context has a multiple of so many tokens. */
const CELLS = 256;
/** Numbers of the cache have two bytes each, computed ones four. */
const BYTES_CACHED = 2;
const BYTES_COMPUTED = 4;
/** Tokens of a prompt in one batch on a processor. */
const BATCH = 128;
/** Widths of intermediate results that exist at one time. */
const WIDTHS = 16;
/** Node.js with the library and without a model. */
export const PROCESS_BYTES = 144 * 1024 * 1024;
