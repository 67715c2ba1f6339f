import type { Model } from '../../src/providers/local/engine/native/model.ts';
import { openModel, startLlama } from '../../src/providers/local/engine/open-model.ts';

/** A model in the process of the test. llama.cpp is loaded once. */
export function openNative(path: string): Model {
  const llama = startLlama({ gpu_layers: 0, template_ms: 0 });
  const order = { path, gpu_layers: 0, context_tokens: 256, parallel: 1 };
  return openModel(llama, order, () => true);
}
