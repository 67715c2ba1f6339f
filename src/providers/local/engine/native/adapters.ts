import { basename } from 'node:path';
import { SvcError } from '../../../../errors.ts';
import { loadProblem } from '../log.ts';
import type { Pointer } from './abi.ts';
import { readHeader } from './header.ts';
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

/** Reads the adapters of a model. They live as long as it. Throws model_invalid. */
export function openAdapters(model: Model, adapters: readonly Adapter[]): LoadedAdapters {
  const pointers = adapters.map(({ path }) => {
    checkAdapter(model, path);
    const pointer = model.llama.c.llama_adapter_lora_init(model.pointer, path);
    if (pointer === null) throw unfit(path, loadProblem() ?? 'llama.cpp does not say why');
    return pointer;
  });
  return { pointers, scales: adapters.map(({ scale }) => scale) };
}

/** llama.cpp says only that an adapter does not fit, so what is known is compared before. */
function checkAdapter({ header, llama: { c } }: Model, path: string): void {
  const adapter = readHeader(c, path);
  if (adapter === null) throw unfit(path, 'it is not a GGUF file that can be read');
  const kind = adapter.value('general.type');
  if (kind !== 'adapter' || adapter.value('adapter.type') !== 'lora')
    throw unfit(path, 'it is no LoRA adapter');
  const [own, other] = [header, adapter].map((each) => each.value('general.architecture'));
  if (own !== other) throw unfit(path, `it is for the architecture ${other}, and this is ${own}`);
}

function unfit(path: string, why: string): SvcError {
  const hint = 'Correct model_adapters. See: svc model show <name>';
  return new SvcError('model_invalid', `The adapter ${basename(path)} does not fit: ${why}.`, {
    hint,
  });
}
