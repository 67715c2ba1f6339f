import type { Model } from '../../src/engine/native/model.ts';
import { openModel, startLlama } from '../../src/engine/open-model.ts';

/**
 * A model in the process of the test. llama.cpp is loaded once, in the part that the built-in model
 * has: other processors round a batch in another way.
 */
export function openNative(path: string): Promise<Model> {
  const llama = startLlama({ gpu_layers: 0, template_ms: null });
  const order = { path, gpu_layers: 0, context_tokens: 256, parallel: 1 };
  return openModel(llama, order, () => true);
}
