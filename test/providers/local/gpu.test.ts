import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Llama } from 'node-llama-cpp';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { gpuWarning } from '../../../src/contract/loaded-models.ts';
import { gpuFacts, infoOf, openModel } from '../../../src/providers/local/engine/load.ts';
import { ATTENTION, type LoadOrder } from '../../../src/providers/local/engine/messages.ts';

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
  attention: ATTENTION,
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

test('a load says how many layers the one before had on the GPU, also after a restart', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-gpu-'));
  try {
    const threads_file = join(folder, 'measured.json');
    const facts = (gpu: 'cuda' | false, gpuLayers: number, changes: Partial<LoadOrder> = {}) => {
      const llama = { gpu, getVramState: async () => ({ total: 8e9 }) };
      return gpuFacts({ llama, gpuLayers } as never, { ...order, threads_file, ...changes });
    };
    assert.equal(await facts(false, 0), {}, 'without a GPU there is nothing to say');
    assert.equal(await facts('cuda', 33), { gpu_bytes: 8e9 });
    assert.equal(await facts('cuda', 20), { gpu_layers_before: 33, gpu_bytes: 8e9 });
    assert.equal(await facts(false, 0), { gpu_layers_before: 20 }, 'the driver is gone');
    assert.equal(await facts('cuda', 0), { gpu_layers_before: 20, gpu_bytes: 8e9 });
    assert.equal(
      await facts('cuda', 12, { gpu_layers: 12 }),
      { gpu_bytes: 8e9 },
      'another setting',
    );
    assert.equal(await facts(false, 0, { gpu_layers: 0 }), {}, 'the user wants none there');
    assert.equal(await facts('cuda', 9, { path: '/other.gguf' }), { gpu_bytes: 8e9 });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('fewer layers than before, or none beside a GPU, is a warning with what to do', () => {
  const warning = (gpu: string, gpu_layers: number, gpu_layers_before?: number) =>
    gpuWarning({
      model: 'm',
      gpu,
      gpu_layers,
      ...(gpu_layers_before === undefined ? {} : { gpu_layers_before }),
    });
  assert.is(warning('cpu', 0), null);
  assert.is(warning('cuda', 33), null);
  assert.is(warning('cuda', 33, 20), null);
  assert.is(gpuWarning({ model: 'm' }), null, 'an old log');
  assert.match(warning('cuda', 20, 33) ?? '', 'm has 20 layers on the GPU, and 33 when');
  assert.match(warning('cuda', 20, 33) ?? '', 'Free memory of the GPU');
  assert.match(warning('cuda', 0) ?? '', 'm has no layer on the GPU, so');
  assert.match(warning('cpu', 0, 33) ?? '', 'finds no GPU now: check its driver');
});

test.run();
