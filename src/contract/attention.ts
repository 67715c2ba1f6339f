import { SvcError } from '../errors.ts';

/** Types of the cached numbers of a context, as llama.cpp names them. */
export const CACHE_TYPES = [
  ...(['f16', 'bf16', 'f32'] as const),
  ...(['q8_0', 'q5_1', 'q5_0', 'q4_1', 'q4_0'] as const),
] as const;
type CacheType = (typeof CACHE_TYPES)[number];

/** How the contexts of answers are cached and read. */
export interface Attention {
  cache_keys: CacheType;
  cache_values: CacheType;
  /** `auto`: if the model and what computes it can. */
  flash: 'auto' | boolean;
}

/** Throws config_invalid for settings that exclude each other. */
export function attentionOf({
  engine_cache_keys: cache_keys,
  engine_cache_values: cache_values,
  engine_flash_attention: flash,
}: {
  engine_cache_keys: CacheType;
  engine_cache_values: CacheType;
  engine_flash_attention: Attention['flash'];
}): Attention {
  if (flash === false && isQuantized(cache_values))
    throw new SvcError(
      'config_invalid',
      `engine_cache_values is ${cache_values}, and engine_flash_attention is false: ` +
        'llama.cpp reads quantized values with flash attention alone.',
      {
        param: 'engine_cache_values',
        hint: 'Set engine_flash_attention to auto, or engine_cache_values to f16.',
      },
    );
  return { cache_keys, cache_values, flash };
}

export function isQuantized(type: CacheType): boolean {
  return type.startsWith('q');
}
