import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { packageRoot } from '../../src/home/paths.ts';
import { checkGguf } from '../../src/models/gguf/check.ts';
import {
  fitOf,
  type ModelShape,
  memoryNeeds,
  PROCESS_BYTES,
  planFor,
  shapeOf,
  weightsOf,
} from '../../src/models/memory-needs.ts';
import { MINI } from '../../src/providers/local/load-check.ts';
import { type GgufOptions, makeGguf } from '../fixtures/models/make-gguf.ts';

const MIB = 1024 * 1024;
const CONTEXT = { parallel: 4, context_tokens: 4096 };
const folder = mkdtempSync(join(tmpdir(), 'svc-needs-'));
test.after(() => rmSync(folder, { recursive: true, force: true }));

async function shapeAt(path: string): Promise<ModelShape> {
  return shapeOf((await checkGguf(path, 64 * MIB))[0], await weightsOf(path));
}

/** Only the shape of such a file counts. Random weights would take seconds to make. */
const SHAPE = { context: 4096, says: [] };
/**
 * Resident memory of engine processes after a prompt of 60 words: x64, on the processor, four runs
 * of 4096 tokens.
 */
const measured: readonly (readonly [GgufOptions, number])[] = [
  [SHAPE, 148],
  [{ ...SHAPE, width: 512, layers: 12 }, 643],
  [{ ...SHAPE, width: 1024, layers: 4 }, 556],
];

test('the estimate is between what real processes took and a quarter more', async () => {
  const path = join(folder, 'model.gguf');
  for (const [options, taken] of measured) {
    const estimate = memoryNeeds(await shapeAt(makeGguf(path, options)), CONTEXT) / MIB;
    assert.ok(estimate >= taken && estimate <= 1.25 * taken, `${estimate} MiB of ${taken}`);
  }
});

test('the known shape of the built-in model is that of its file', async () => {
  const path = join(packageRoot(), 'src/providers/mini/svc-mini.gguf');
  const shape = await shapeAt(path);
  assert.equal(shape, { ...MINI, weights: await weightsOf(path) });
  const estimate = memoryNeeds(shape, CONTEXT) / MIB;
  assert.ok(estimate >= 153 && estimate <= 1.25 * 153, `${estimate} MiB of 153`);
});

test('a draft model needs its weights, and a context for one run', () => {
  const draft = { ...MINI, weights: 50 * MIB };
  const shape = { ...MINI, weights: 100 * MIB };
  const more = memoryNeeds({ ...shape, draft }, CONTEXT) - memoryNeeds(shape, CONTEXT);
  assert.is(more, memoryNeeds(draft, { ...CONTEXT, parallel: 1 }) - PROCESS_BYTES);
  assert.ok(more > 50 * MIB);
});

test('a wider layer needs more for its batch, by its width', () => {
  const needs = (width: number) => memoryNeeds({ ...MINI, weights: 0, width }, CONTEXT);
  assert.is(needs(2048) - needs(1024), 2 * (needs(1024) - needs(512)));
  assert.ok(needs(1024) - needs(512) > MIB);
});

test('a context beyond that of the model needs no more', async () => {
  const shape = await shapeAt(makeGguf(join(folder, 'short.gguf'), { context: 512 }));
  assert.is(memoryNeeds(shape, CONTEXT), memoryNeeds(shape, { ...CONTEXT, context_tokens: 512 }));
});

test('the types of the cache count, keys and values each by itself', async () => {
  const shape = await shapeAt(makeGguf(join(folder, 'cached.gguf'), measured[1]?.[0]));
  const needs = (cache_keys: 'f16' | 'q8_0' | 'q4_0', cache_values = cache_keys) =>
    memoryNeeds(shape, { ...CONTEXT, attention: { cache_keys, cache_values } });
  assert.is(needs('f16'), memoryNeeds(shape, CONTEXT));
  const whole = 4 * 4096 * 12 * 2 * 512;
  assert.is(needs('f16') - needs('q8_0'), (whole * (16 - 8.5)) / 8);
  assert.is(needs('f16') - needs('q4_0', 'f16'), (whole * (16 - 4.5)) / 16);
});

test('fewer runs at one time are planned where all do not fit', async () => {
  const shape = await shapeAt(makeGguf(join(folder, 'deep.gguf'), measured[1]?.[0]));
  const whole = memoryNeeds(shape, CONTEXT);
  const own = whole - shape.weights;
  const plan = (bytes: number, engine_bytes = own) =>
    planFor(shape, CONTEXT, { bytes, engine_bytes });
  assert.equal(plan(whole), { parallel: 4, bytes: whole });
  assert.is(plan(whole - 1).parallel, 2);
  assert.is(plan(whole, own - 1).parallel, 2, 'an engine that takes more is killed');
  const least = memoryNeeds(shape, { ...CONTEXT, parallel: 1 });
  assert.equal(plan(1), { parallel: 1, bytes: least });
});

test('by the memory there are eight runs where two such models fit, and else four or fewer', async () => {
  const shape = await shapeAt(makeGguf(join(folder, 'eight.gguf'), measured[1]?.[0]));
  const wanted = { ...CONTEXT, parallel: 0 };
  const needs = (parallel: number) => memoryNeeds(shape, { ...CONTEXT, parallel });
  const plan = (bytes: number, engine_bytes = bytes) =>
    planFor(shape, wanted, { bytes, engine_bytes });
  assert.equal(plan(2 * needs(8)), { parallel: 8, bytes: needs(8) });
  assert.equal(plan(2 * needs(8) - 1), { parallel: 4, bytes: needs(4) });
  assert.is(plan(2 * needs(8), needs(8) - shape.weights - 1).parallel, 4, 'an engine has a bound');
  assert.is(plan(needs(4)).parallel, 4);
  assert.is(plan(needs(4) - 1).parallel, 2);
  const asked = { ...CONTEXT, parallel: 8 };
  const most = { bytes: needs(8), engine_bytes: needs(8) };
  assert.is(planFor(shape, asked, most).parallel, 8, 'a number that is set may take all of it');
  const there = { ...most, free_bytes: needs(4), ...NO_GPU };
  assert.is(fitOf(shape, wanted, there).verdict, 'fits', 'four are enough');
  assert.match(
    fitOf(shape, wanted, { ...there, bytes: needs(4) - 1 }).text,
    /it fits, but it is tight with 2 at a time/,
  );
});

test('the weights of a split model are those of all its files', async () => {
  for (const [part, bytes] of [
    [1, 100],
    [2, 50],
    [3, 7],
  ] as const) {
    const path = join(folder, `m-0000${part}-of-00003.gguf`);
    writeFileSync(path, '');
    truncateSync(path, bytes);
  }
  assert.is(await weightsOf(join(folder, 'm-00001-of-00003.gguf')), 157);
});

/** From their public descriptions, each with a cache of eight heads of 128 numbers. */
const known: readonly (readonly [name: string, gigabytes: number, ...shape: number[]])[] = [
  ['Qwen3 0.6B, Q8_0', 0.64, 28, 1024, 16, 151_936],
  ['Qwen3 4B', 2.5, 36, 2560, 32, 151_936],
  ['Llama 3.1 8B', 4.92, 32, 4096, 32, 128_256],
  ['Qwen3 14B', 9, 40, 5120, 40, 151_936],
  ['Llama 3.3 70B', 42.5, 80, 8192, 64, 128_256],
];
const GB = 1e9;
const ROOM = { bytes: 1e15, engine_bytes: 1e15, free_bytes: 1e15 };
const NO_GPU = { gpu_bytes: null, gpu_layers: 'auto' } as const;

function shapeIn([
  ,
  gigabytes,
  layers = 0,
  width = 0,
  heads = 0,
  vocabulary = 0,
]: (typeof known)[0]) {
  const weights = gigabytes * GB;
  return { weights, layers, width, heads, vocabulary, keys: 1024, values: 1024, context: 40_960 };
}

test('the estimate from the size alone is close to the one from the header', () => {
  for (const each of known) {
    const shape = shapeIn(each);
    const { needs_bytes, estimated, text } = fitOf({ weights: shape.weights }, CONTEXT, {
      ...ROOM,
      ...NO_GPU,
    });
    const ratio = needs_bytes / memoryNeeds(shape, CONTEXT);
    assert.ok(ratio > 0.85 && ratio < 1.2, `${each[0]}: ${ratio}`);
    assert.ok(estimated);
    assert.match(text, 'by its size');
  }
});

test('a model fits, fits tightly or does not fit, and the words have the figures', () => {
  const shape = shapeIn(['x', 4.92, 32, 4096, 32, 128_256]);
  const needs = memoryNeeds(shape, CONTEXT);
  const least = memoryNeeds(shape, { ...CONTEXT, parallel: 1 });
  const judged = (there: Partial<typeof ROOM>) =>
    fitOf(shape, CONTEXT, { ...ROOM, ...NO_GPU, ...there });
  assert.is(judged({ bytes: needs, free_bytes: needs }).verdict, 'fits');
  assert.is(judged({ free_bytes: needs - 1 }).verdict, 'tight');
  const fewer = judged({ bytes: needs - 1 });
  assert.equal([fewer.verdict, fewer.needs_bytes < needs], ['tight', true]);
  assert.match(fewer.text, 'it is tight with 2 at a time');
  assert.is(judged({ bytes: least }).verdict, 'tight');
  const refused = judged({ bytes: least - 1, free_bytes: 2 * 1024 ** 3 });
  assert.is(refused.verdict, 'does not fit');
  assert.equal([refused.needs_bytes, refused.budget_bytes], [least, least - 1]);
  assert.match(refused.text, /about 5\.\d GiB .* models may use 5\.\d GiB, and 2\.0 GiB are free/);
  assert.not.match(refused.text, 'GPU');
  const killed = judged({ engine_bytes: 100 * MIB });
  assert.is(killed.verdict, 'does not fit');
  assert.match(killed.text, 'one engine may use 100 MiB besides its weights');
});

test('the layers on a GPU grow with its memory, up to all of them, as the setting allows', () => {
  const shape = shapeIn(['x', 4.92, 32, 4096, 32, 128_256]);
  const on = (gpu_bytes: number | null, gpu_layers: 'auto' | 'max' | number = 'auto') =>
    fitOf(shape, CONTEXT, { ...ROOM, gpu_bytes, gpu_layers }).gpu;
  assert.is(on(null), null);
  assert.is(on(8 * GB, 0), null);
  assert.equal(on(24 * GB), { layers: 33, of: 33 });
  assert.equal(on(GB, 'max'), { layers: 33, of: 33 });
  assert.equal(on(24 * GB, 12), { layers: 12, of: 33 });
  assert.equal(on(100 * MIB), { layers: 0, of: 33 });
  const [four, six] = [on(4 * GB)?.layers ?? 0, on(6 * GB)?.layers ?? 0];
  assert.ok(four > 5 && six > four && six < 33, `${four}, ${six}`);
  const there = { ...ROOM, gpu_bytes: 4 * GB, gpu_layers: 'auto' } as const;
  assert.match(fitOf(shape, CONTEXT, there).text, `On the GPU: about ${four} of 33 layers.`);
  assert.match(fitOf({ weights: 4.92 * GB }, CONTEXT, there).text, /On the GPU: about \d+ %/);
});

test.run();
