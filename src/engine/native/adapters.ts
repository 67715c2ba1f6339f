import { basename } from 'node:path';
import { SvcError } from '../../errors.ts';
import { type GgufHeader, readHeader } from '../../models/index.ts';
import { loadProblem } from '../log.ts';
import type { Pointer } from './abi.ts';
import type { Model } from './model.ts';

/** A LoRA adapter of a model, and how much of it counts. */
export interface Adapter {
  path: string;
  scale: number;
}

/** What llama.cpp has of them, in the order of their ids. */
export interface LoadedAdapters {
  pointers: readonly Pointer[];
  scales: readonly number[];
}

/** Reads checked adapters of a model. They live as long as it. Throws model_invalid. */
export function openAdapters(model: Model, adapters: readonly Adapter[]): LoadedAdapters {
  const pointers = adapters.map(({ path }) => {
    const pointer = model.llama.c.llama_adapter_lora_init(model.pointer, path);
    if (pointer === null) throw unfitError(path, loadProblem() ?? 'llama.cpp does not say why');
    return pointer;
  });
  return { pointers, scales: adapters.map(({ scale }) => scale) };
}

/**
 * llama.cpp says only that an adapter does not fit, so the known facts are compared first. Throws
 * model_invalid.
 */
export async function checkAdapter(model: GgufHeader, { path }: Adapter): Promise<void> {
  const adapter = await readHeader(path).catch(() => {
    throw unfitError(path, 'it is not a GGUF file that can be read');
  });
  if (adapter.type !== 'adapter' || adapter.entries.value('adapter.type') !== 'lora')
    throw unfitError(path, 'it is not a LoRA adapter');
  const [own, other] = [model.architecture, adapter.architecture];
  if (own !== other)
    throw unfitError(path, `it is for the architecture ${other}, and this is ${own}`);
}

function unfitError(path: string, why: string): SvcError {
  const hint = 'Correct model_adapters. See: svc model show <name>';
  return new SvcError('model_invalid', `The adapter ${basename(path)} does not fit: ${why}.`, {
    hint,
  });
}
