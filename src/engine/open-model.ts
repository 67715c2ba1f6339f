import { statSync } from 'node:fs';
import koffi from 'koffi';
import { SvcError } from '../errors.ts';
import { SYSTEM } from '../home/platform.ts';
import { type GgufHeader, partsOf, readHeader, shapeOf } from '../models/index.ts';
import { loadProblem, logNative } from './log.ts';
import type { Pointer } from './native/abi.ts';
import { checkAdapter, openAdapters } from './native/adapters.ts';
import { type Llama, openLlama, withLogging } from './native/library.ts';
import { Model } from './native/model.ts';
import type { LoadOrder } from './protocol/messages.ts';

/**
 * The part of llama.cpp that computes on processors with AVX2, for the built-in model. Those with
 * AVX-512 compute 64 numbers at once. An attention head of `svc-mini` has 32, which they compute
 * one by one: a token then takes two to three times as long. A test notices another name.
 */
export const NARROW = 'libggml-cpu-haswell.so';

/** Loads llama.cpp, with a graphics card if that is wanted. Throws engine_missing. */
export function startLlama({
  gpu_layers,
  builds,
  template_ms,
}: Pick<LoadOrder, 'gpu_layers' | 'builds' | 'template_ms'>): Llama {
  const isBuiltIn = template_ms === null;
  return openLlama({
    gpu: gpu_layers !== 0,
    builds,
    processor: isBuiltIn && SYSTEM === 'linux-x64' ? NARROW : null,
    log: logNative,
  });
}

/** Throws model_invalid, engine_failed. */
export async function openModel(
  llama: Llama,
  order: Pick<LoadOrder, 'path' | 'gpu_layers' | 'context_tokens' | 'parallel' | 'adapters'>,
  onProgress: (loaded: number) => boolean,
): Promise<Model> {
  const { c } = llama;
  const { path, adapters = [] } = order;
  const header = await readHeader(path);
  for (const adapter of adapters) await checkAdapter(header, adapter);
  return withLogging(llama, () => {
    const gpuLayers = gpuLayersOf(llama, header, order);
    const progress = koffi.register(onProgress, PROGRESS);
    try {
      const model: Pointer = c.llama_model_load_from_file(path, {
        ...c.llama_model_default_params(),
        n_gpu_layers: gpuLayers,
        progress_callback: progress,
      });
      if (model === null) throw invalidError();
      const opened = new Model(llama, model, header, gpuLayers);
      opened.adapters = openAdapters(opened, adapters);
      return opened;
    } finally {
      koffi.unregister(progress);
    }
  });
}

const PROGRESS = koffi.pointer(koffi.proto('bool progress_callback(float, void*)'));

function invalidError(): SvcError {
  const reason = loadProblem();
  if (NO_MEMORY.test(reason ?? '')) return tooLarge(reason);
  const message = reason === null ? undefined : `The engine cannot load the model: ${reason}.`;
  return new SvcError('model_invalid', message);
}

/** In what llama.cpp says of a load. */
const NO_MEMORY = /allocat|out of memory/i;

export function tooLarge(cause: unknown): SvcError {
  return new SvcError(
    'engine_failed',
    'There is too little memory for the model and its context.',
    { cause },
  );
}

export function gpuLayersOf(
  llama: Pick<Llama, 'gpu' | 'gpuMemory'>,
  header: GgufHeader,
  {
    path,
    gpu_layers,
    context_tokens,
    parallel,
  }: Pick<LoadOrder, 'path' | 'gpu_layers' | 'context_tokens' | 'parallel'>,
): number {
  if (llama.gpu === null) return 0;
  const weights = partsOf(path).reduce((sum, part) => sum + statSync(part).size, 0);
  const shape = shapeOf(header, weights);
  const layers = shape.layers + 1;
  if (gpu_layers === 'max') return layers;
  if (gpu_layers !== 'auto') return Math.min(gpu_layers, layers);
  const token = shape.layers * (shape.keys + shape.values) * NUMBER_BYTES;
  const cache = context_tokens * parallel * token;
  return fittingLayers(llama.gpuMemory().free, { layers, weights, cache });
}

/** As many layers as fit into free memory, with their part of the cache of all runs. */
export function fittingLayers(
  free: number,
  { layers, weights, cache }: { layers: number; weights: number; cache: number },
): number {
  const each = (weights + cache) / layers;
  return Math.max(0, Math.min(layers, Math.floor((free - SPARE_BYTES) / each)));
}

/** The bytes that a graphics card needs besides weights and caches. */
const SPARE_BYTES = 512 * 1024 * 1024;
/** Of a number in a cache. */
const NUMBER_BYTES = 2;
