import type { Llama } from 'node-llama-cpp';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { infoOf, openModel } from '../../../src/providers/local/engine/load.ts';
import type { LoadOrder } from '../../../src/providers/local/engine/messages.ts';

const order: LoadOrder = {
  type: 'load',
  path: '/m.gguf',
  purpose: 'answers',
  gpu_layers: 'auto',
  threads: 1,
  threads_file: '/t',
  parallel: 4,
  context_tokens: 4096,
  batching: false,
  template_ms: 1,
};

/** What the library is asked for. */
async function asked(changes: Partial<LoadOrder>): Promise<unknown> {
  let found: unknown;
  const loadModel = async (options: { gpuLayers: unknown }) => {
    found = options.gpuLayers;
  };
  await openModel({ loadModel } as unknown as Llama, { ...order, ...changes }, () => {});
  return found;
}

test('by default the layers that fit beside the contexts of all runs are on the GPU', async () => {
  assert.equal(await asked({}), { fitContext: { contextSize: 16_384, embeddingContext: false } });
  assert.equal(await asked({ purpose: 'embeddings', parallel: 1, context_tokens: 2048 }), {
    fitContext: { contextSize: 2048, embeddingContext: true },
  });
});

test('a number of layers, or all, is passed on', async () => {
  assert.is(await asked({ gpu_layers: 12 }), 12);
  assert.is(await asked({ gpu_layers: 'max' }), 'max');
});

test('the record says what computes', () => {
  const chosen = {
    threads: 1,
    context_length: 2,
    parallel: 3,
    chat_template: 'x',
    batching: false,
  };
  const computed = (gpu: string | false) => {
    const model = { llama: { gpu }, gpuLayers: 33 } as never;
    const { load_ms, ...info } = infoOf(model, performance.now() - 10, chosen);
    assert.ok(load_ms >= 10);
    return info;
  };
  assert.equal(computed('cuda'), { ...chosen, gpu: 'cuda', gpu_layers: 33 });
  assert.equal(computed(false), { ...chosen, gpu: 'cpu', gpu_layers: 0 });
});

test.run();
