import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Attention } from '../../src/contract/attention.ts';
import { infoOf, loadModel } from '../../src/engine/load.ts';
import { ATTENTION } from '../../src/engine/protocol/messages.ts';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { failure } from '../helpers/failure.ts';
import { makeLocalProvider, readAnswer } from '../helpers/local-provider.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-cache-types-'));
test.after(() => rmSync(folder, { recursive: true, force: true }));

const SMALL: Attention = { cache_keys: 'q8_0', cache_values: 'q4_0', flash: 'auto' };

/** Bytes of a computed sequence, which llama.cpp says. */
async function sequenceBytes(attention: Attention): Promise<number> {
  const path = makeGguf(join(folder, 'wide.gguf'), { context: 2048, width: 256, layers: 8 });
  const { context } = await loadModel(
    {
      type: 'load',
      path,
      purpose: 'answers',
      gpu_layers: 0,
      attention,
      threads: 1,
      threads_file: join(folder, 'threads.json'),
      parallel: 1,
      context_tokens: 2048,
      batching: false,
      template_ms: 10_000,
    },
    () => true,
  );
  context.initBatch();
  context.addToBatch(0, 0, Array(TOKENS).fill(5), []);
  context.decodeBatch();
  const bytes = context.sizeOf(0);
  context.dispose();
  return bytes;
}

const TOKENS = 128;

test('the types reach the context: a sequence has fewer bytes by what they say', async () => {
  const usual = await sequenceBytes(ATTENTION);
  const small = await sequenceBytes(SMALL);
  const numbers = TOKENS * 8 * 256;
  const less = (numbers * (16 - 8.5 + (16 - 4.5))) / 8;
  assert.ok(usual - small > 0.9 * less, `${usual} and ${small} bytes`);
});

test('a model answers with them, and its record and its estimate have them', async () => {
  const records = [];
  for (const attention of [ATTENTION, SMALL]) {
    const local = makeLocalProvider({ model: 'random', attention });
    try {
      makeGguf(join(local.folder, 'random.gguf'), { context: 2048, width: 256, layers: 8 });
      const { text } = await readAnswer(local, { model: 'random', max_tokens: 8 });
      assert.ok(text.length > 0);
      const [loaded] = local.models.loaded(Date.now()).models;
      assert.equal(loaded?.attention, attention);
      const shown = await local.models.show('random');
      assert.equal(shown.attention, attention);
      records.push([loaded?.memory_bytes ?? 0, shown.memory_bytes ?? 0]);
    } finally {
      await local.close();
    }
  }
  const [[usual = 0, shown = 0] = [], [small = 0, shownSmall = 0] = []] = records;
  assert.ok(small > 0 && small < usual, `${small} of ${usual}`);
  assert.ok(shownSmall > 0 && shownSmall < shown, `${shownSmall} of ${shown}`);
});

test('a model whose heads do not fit a type is refused by the setting', async () => {
  for (const [setting, attention] of [
    ['engine_cache_keys', { ...ATTENTION, cache_keys: 'q8_0' }],
    ['engine_cache_values', { ...ATTENTION, cache_values: 'q5_1' }],
  ] as const) {
    const local = makeLocalProvider({ model: 'narrow', attention });
    try {
      makeGguf(join(local.folder, 'narrow.gguf'), { context: 2048, head: 16 });
      const refused = await failure(readAnswer(local, { model: 'narrow' }));
      assert.equal([refused.code, refused.retryable], ['engine_failed', false]);
      assert.match(refused.message, `type of ${setting}: its heads have 16 numbers`);
      assert.match(refused.message, `Set ${setting} to f16`);
      assert.ok((await readAnswer(local, { model: 'svc-mini' })).text.length > 0, 'as it is');
    } finally {
      await local.close();
    }
  }
});

test('the time of a load is from its beginning to now', () => {
  const { now } = performance;
  performance.now = () => 1500.4;
  try {
    const model = { llama: { gpu: null }, gpuLayers: 9 } as unknown as Parameters<typeof infoOf>[0];
    const { load_ms, gpu, gpu_layers } = infoOf(model, 500, {} as Parameters<typeof infoOf>[2]);
    assert.equal([load_ms, gpu, gpu_layers], [1000, 'cpu', 9]);
  } finally {
    performance.now = now;
  }
});

test.run();
