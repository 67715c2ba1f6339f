import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { gpuWarning } from '../../src/contract/loaded-models.ts';
import { gpuFacts, infoOf } from '../../src/engine/load.ts';
import { fittingLayers, gpuLayersOf } from '../../src/engine/open-model.ts';
import { ATTENTION, type GpuLayers, type LoadOrder } from '../../src/engine/protocol/messages.ts';
import { readHeader } from '../../src/models/gguf/check.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-gpu-'));
test.after(() => rmSync(folder, { recursive: true, force: true }));

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

const GB = 1024 ** 3;

test('by default the layers that fit beside the contexts of all runs are on the GPU', () => {
  const model = { layers: 33, weights: 8 * GB, cache: 4 * GB };
  assert.is(fittingLayers(24 * GB, model), 33);
  assert.is(fittingLayers(6.5 * GB, model), 16);
  assert.is(fittingLayers(6.5 * GB, { ...model, cache: 0 }), 24);
  assert.is(fittingLayers(0.2 * GB, model), 0);
});

test('a number of layers, or all, is what the model has, and without a card it has none', async () => {
  const path = makeGguf(join(folder, 'layers.gguf'), { layers: 3 });
  const header = await readHeader(path);
  const layersOf = (gpu_layers: GpuLayers, gpu: string | null = 'cuda') => {
    const card = { gpu, gpuMemory: () => ({ free: 4 * GB, total: 8 * GB }) };
    return gpuLayersOf(card, header, { path, gpu_layers, context_tokens: 64, parallel: 1 });
  };
  assert.equal(
    ['max', 'auto', 2, 9, 0].map((wanted) => layersOf(wanted as GpuLayers)),
    [4, 4, 2, 4, 0],
  );
  assert.is(layersOf('max', null), 0);
});

test('the record says what computes', () => {
  const chosen = {
    threads: 1,
    context_length: 2,
    parallel: 3,
    chat_template: 'x',
    batching: false,
  };
  const computed = (gpu: string | null) => {
    const model = { llama: { gpu }, gpuLayers: gpu === null ? 0 : 33 } as never;
    const { load_ms, ...info } = infoOf(model, performance.now() - 10, chosen);
    assert.ok(load_ms >= 10);
    return info;
  };
  assert.equal(computed('cuda'), { ...chosen, gpu: 'cuda', gpu_layers: 33 });
  assert.equal(computed(null), { ...chosen, gpu: 'cpu', gpu_layers: 0 });
});

test('a load says how many layers the one before had on the GPU, also after a restart', async () => {
  const threads_file = join(folder, 'measured.json');
  const facts = (gpu: 'cuda' | null, gpuLayers: number, changes: Partial<LoadOrder> = {}) => {
    const llama = { gpu, gpuMemory: () => ({ free: 1, total: 8e9 }) };
    return gpuFacts({ llama, gpuLayers } as never, { ...order, threads_file, ...changes });
  };
  assert.equal(await facts(null, 0), {}, 'without a GPU there is nothing to say');
  assert.equal(await facts('cuda', 33), { gpu_bytes: 8e9 });
  assert.equal(await facts('cuda', 20), { gpu_layers_before: 33, gpu_bytes: 8e9 });
  assert.equal(await facts(null, 0), { gpu_layers_before: 20 }, 'the driver is gone');
  assert.equal(await facts('cuda', 0), { gpu_layers_before: 20, gpu_bytes: 8e9 });
  assert.equal(await facts('cuda', 12, { gpu_layers: 12 }), { gpu_bytes: 8e9 }, 'another setting');
  assert.equal(await facts(null, 0, { gpu_layers: 0 }), {}, 'the user wants none there');
  assert.equal(await facts('cuda', 9, { path: '/other.gguf' }), { gpu_bytes: 8e9 });
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
