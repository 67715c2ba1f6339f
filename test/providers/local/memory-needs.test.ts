import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { packageRoot } from '../../../src/home/paths.ts';
import { checkGguf } from '../../../src/models/gguf/check.ts';
import { MINI } from '../../../src/providers/local/load-guard.ts';
import {
  type ModelShape,
  memoryNeeds,
  planFor,
  shapeOf,
  weightsOf,
} from '../../../src/providers/local/memory-needs.ts';
import { type GgufOptions, makeGguf } from '../../fixtures/models/make-gguf.ts';

const MIB = 1024 * 1024;
const CONTEXT = { parallel: 4, context_tokens: 4096 };
const folder = mkdtempSync(join(tmpdir(), 'svc-needs-'));
test.after(() => rmSync(folder, { recursive: true, force: true }));

async function shapeAt(path: string): Promise<ModelShape> {
  return shapeOf(await checkGguf(path, 64 * MIB), await weightsOf(path));
}

/**
 * Resident memory of engine processes after a prompt of 60 words: x64, on the processor, four runs
 * of 4096 tokens.
 */
const measured: readonly (readonly [GgufOptions, number])[] = [
  [{ context: 4096 }, 148],
  [{ context: 4096, width: 512, layers: 12 }, 643],
  [{ context: 4096, width: 1024, layers: 4 }, 556],
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

test('a context beyond that of the model needs no more', async () => {
  const shape = await shapeAt(makeGguf(join(folder, 'short.gguf'), { context: 512 }));
  assert.is(memoryNeeds(shape, CONTEXT), memoryNeeds(shape, { ...CONTEXT, context_tokens: 512 }));
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

test.run();
