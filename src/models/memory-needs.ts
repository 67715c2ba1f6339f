import { freemem, totalmem } from 'node:os';
import { availableMemory, constrainedMemory } from 'node:process';
import type { Attention } from '../contract/attention.ts';
import type { Fit } from '../contract/model-record.ts';
import { LOCAL_RUNS } from '../limits.ts';
import type { GgufHeader } from './gguf/header.ts';
import { filesOfModel } from './gguf/parts.ts';
import { bitsOf } from './gguf/tensors.ts';

/** The numbers that determine the memory of a model. */
export interface ModelShape {
  /** Bytes of all files of the weights. */
  weights: number;
  layers: number;
  /** Width of one token. */
  width: number;
  heads: number;
  /** Numbers of one token that a layer caches. */
  keys: number;
  values: number;
  vocabulary: number;
  /** The context that the model was trained for. */
  context: number;
  /** Its draft model, which has a context for one run. Absent: none. */
  draft?: ModelShape;
}

export interface ContextPlan {
  /** Runs at one time, each with its own context. 0: by the memory. */
  parallel: number;
  /** Tokens of one run. */
  context_tokens: number;
  /** Tokens of one batch. */
  batch?: number;
  attention?: Pick<Attention, 'cache_keys' | 'cache_values'>;
}

/** The shape from the header of a file. A header without it counts as a model without a context. */
export function shapeOf(
  { architecture, entries }: Pick<GgufHeader, 'architecture' | 'entries'>,
  weights: number,
): ModelShape {
  const number = (key: string) => entries.number(`${architecture}.${key}`);
  const width = number('embedding_length') ?? 0;
  const heads = number('attention.head_count') ?? 1;
  const cachedHeads = number('attention.head_count_kv') ?? heads;
  const head = Math.ceil(width / Math.max(1, heads));
  return {
    weights,
    layers: number('block_count') ?? 0,
    width,
    heads,
    keys: cachedHeads * (number('attention.key_length') ?? head),
    values: cachedHeads * (number('attention.value_length') ?? head),
    vocabulary: number('vocab_size') ?? entries.count('tokenizer.ggml.tokens') ?? 0,
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
  { parallel, context_tokens, batch = BATCH, attention = USUAL }: ContextPlan,
): number {
  const tokens = Math.ceil(Math.min(context_tokens, shape.context) / CELLS) * CELLS;
  const bits =
    shape.keys * bitsOf(attention.cache_keys) + shape.values * bitsOf(attention.cache_values);
  const cache = (parallel * tokens * shape.layers * bits) / 8;
  const logits = (batch + parallel) * shape.vocabulary;
  const scores = batch * tokens * shape.heads;
  const layer = batch * shape.width * WIDTHS;
  const buffers = (logits + scores + layer) * BYTES_COMPUTED;
  const { draft } = shape;
  const plan = { parallel: 1, context_tokens, batch, attention };
  const more = draft === undefined ? 0 : memoryNeeds(draft, plan) - PROCESS_BYTES;
  return PROCESS_BYTES + shape.weights + cache + buffers + more;
}

/**
 * The most parallel runs that fit, with their needs. Fewer than one at a time do not exist, so the
 * result may be above the bound. By the memory there are more than the least only where another
 * model of this size fits beside them.
 */
export function planFor(
  shape: ModelShape,
  wanted: ContextPlan,
  most: MemoryMost,
): { parallel: number; bytes: number } {
  const isChosen = wanted.parallel > 0;
  for (let parallel = wanted.parallel || LOCAL_RUNS.most; ; parallel = Math.floor(parallel / 2)) {
    const bytes = memoryNeeds(shape, { ...wanted, parallel });
    const room = isChosen || parallel <= LOCAL_RUNS.least ? most.bytes : most.bytes / 2;
    const isFitting = bytes <= room && bytes - shape.weights <= most.engine_bytes;
    if (isFitting || parallel <= 1) return { parallel, bytes };
  }
}

export interface MemoryMost {
  /** Of all models. */
  bytes: number;
  /** Of an engine, besides its weights. An engine that takes more is killed. */
  engine_bytes: number;
}

/** The memory that is there for one more model. */
export interface MemoryThere extends MemoryMost {
  /** The free memory of the machine, with the memory that other models could leave. */
  free_bytes: number;
  /** Of a GPU. Null: none is known. */
  gpu_bytes: number | null;
  /** Layers on the GPU, as the configuration has it. */
  gpu_layers: 'auto' | 'max' | number;
}

/**
 * Whether a model fits, in figures and in words, for every list, download and load. Without a shape
 * the size of the weights has to do.
 */
export function fitOf(
  model: ModelShape | { weights: number },
  wanted: ContextPlan,
  there: MemoryThere,
): Fit {
  const isEstimated = !('layers' in model);
  const shape = isEstimated ? usualShape(model.weights) : model;
  const { parallel, bytes } = planFor(shape, wanted, there);
  const own = bytes - shape.weights;
  const isRefused = bytes > there.bytes || own > there.engine_bytes;
  const isFewer = parallel < (wanted.parallel || LOCAL_RUNS.least);
  const isTight = bytes > there.free_bytes || isFewer;
  const verdict = isRefused ? 'does not fit' : isTight ? 'tight' : 'fits';
  const gpu = gpuFitOf(shape, { ...wanted, parallel }, there);
  const room =
    own > there.engine_bytes && bytes <= there.bytes
      ? `one engine may use ${toSizeText(there.engine_bytes)} besides its weights`
      : `models may use ${toSizeText(there.bytes)}, and ${toSizeText(there.free_bytes)} are free`;
  const runs = verdict === 'tight' && isFewer ? ` with ${parallel} at a time` : '';
  return {
    verdict,
    needs_bytes: bytes,
    budget_bytes: there.bytes,
    free_bytes: there.free_bytes,
    estimated: isEstimated,
    gpu,
    text:
      `It needs about ${toSizeText(bytes)} of memory${isEstimated ? ', by its size' : ''}; ` +
      `${room}: ${WORDS[verdict]}${runs}.${gpuText(gpu, isEstimated)}`,
  };
}

/** The number of layers is in the header. */
function gpuText(gpu: Fit['gpu'], isEstimated: boolean): string {
  if (gpu === null) return '';
  const { layers, of } = gpu;
  const part = isEstimated ? `${Math.round((100 * layers) / of)} %` : `${layers} of ${of} layers`;
  return ` On the GPU: about ${part}.`;
}

const WORDS = {
  fits: 'it fits',
  tight: 'it fits, but it is tight',
  'does not fit': 'it does not fit',
} as const satisfies Record<Fit['verdict'], string>;

/** The layers that fit on the GPU beside the buffers of a batch. The last one is the output. */
function gpuFitOf(
  shape: ModelShape,
  plan: ContextPlan,
  { gpu_bytes, gpu_layers }: MemoryThere,
): Fit['gpu'] {
  if (gpu_bytes === null || gpu_layers === 0 || shape.layers === 0) return null;
  const of = shape.layers + 1;
  const buffers = memoryNeeds({ ...shape, weights: 0, layers: 0 }, plan) - PROCESS_BYTES;
  const layered = memoryNeeds(shape, plan) - PROCESS_BYTES - buffers;
  const fitting = Math.floor(Math.max(0, gpu_bytes - buffers) / (layered / of));
  const most = typeof gpu_layers === 'number' ? gpu_layers : of;
  return { layers: Math.min(of, most, gpu_layers === 'max' ? of : fitting), of };
}

/**
 * The shape that models with weights of this size mostly have: about five bits a parameter, and
 * eight heads of 128 numbers in the cache. A test compares it with models that are known.
 */
function usualShape(weights: number): ModelShape {
  const parameters = weights / BYTES_PARAMETER;
  const layers = Math.round(LAYERS_1B * (parameters / 1e9) ** LAYERS_GROWTH);
  const width = Math.round(Math.sqrt(parameters / (12 * layers)));
  return {
    weights,
    layers,
    width,
    heads: Math.ceil(width / 128),
    keys: 1024,
    values: 1024,
    vocabulary: 128_000,
    context: Number.MAX_SAFE_INTEGER,
  };
}

/** A parameter in the usual quantization, Q4_K_M. */
export const BYTES_PARAMETER = 0.61;
const LAYERS_1B = 26;
const LAYERS_GROWTH = 0.26;

/** The memory for models unless the configuration says it: a share of what this process may use. */
export function defaultBudget(): number {
  const constrained = constrainedMemory() || Number.POSITIVE_INFINITY;
  return Math.floor(Math.min(totalmem(), constrained) * SHARE);
}

const SHARE = 0.75;

/** What this process could still take. Node.js before 20.13 knows only that of the machine. */
export function freeMemory(): number {
  return availableMemory?.() ?? freemem();
}

/** A size for a reader. */
export function toSizeText(bytes: number): string {
  const [unit, name] = bytes >= GIB ? [GIB, 'GiB'] : [GIB / 1024, 'MiB'];
  const value = bytes / unit;
  return `${unit === GIB && value < 100 ? value.toFixed(1) : Math.ceil(value)} ${name}`;
}

const GIB = 1024 ** 3;

/** A context has a multiple of so many tokens. */
const CELLS = 256;
const USUAL = { cache_keys: 'f16', cache_values: 'f16' } as const;
/** Computed numbers have four bytes each. */
const BYTES_COMPUTED = 4;
/** Tokens of a prompt in one batch on a processor. */
const BATCH = 128;
/** Widths of intermediate results that exist at one time. */
const WIDTHS = 16;
/** Node.js with the library and without a model. */
export const PROCESS_BYTES = 144 * 1024 * 1024;
