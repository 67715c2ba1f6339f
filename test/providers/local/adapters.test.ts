import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Entry, encodeGguf } from '../../fixtures/models/gguf-bytes.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { failure } from '../../helpers/failure.ts';
import { type LocalHarness, makeLocalProvider, readAnswer } from '../../helpers/local-provider.ts';

/** LoRA adapters of a local model. */

let local: LocalHarness;
let adapters: string[];
test.before.each(() => {
  adapters = [];
  local = makeLocalProvider({ library: { adapters: () => [{ model: 'mine', value: adapters }] } });
  makeGguf(join(local.folder, 'mine.gguf'));
});
test.after.each(() => local.close());

const [WIDTH, RANK] = [64, 4];

/** Changes how the first layer reads. Each seed is another adapter. */
function makeAdapter(name: string, seed: number, changes: readonly Entry[] = []): string {
  const path = join(local.folder, '..', `${name}-${process.pid}.lora`);
  const numbers = (count: number) =>
    new Float32Array(count).map((_, index) => Math.fround(Math.sin(index * 7.1 + seed)));
  const own = new Map<string, Entry>([
    ['general.type', ['general.type', 'string', 'adapter']],
    ['general.architecture', ['general.architecture', 'string', 'llama']],
    ['adapter.type', ['adapter.type', 'string', 'lora']],
    ['adapter.lora.alpha', ['adapter.lora.alpha', 'float32', 8]],
  ]);
  for (const change of changes) own.set(change[0], change);
  const tensors = ['attn_q', 'attn_v'].flatMap((part) => [
    { name: `blk.0.${part}.weight.lora_a`, shape: [WIDTH, RANK], data: numbers(WIDTH * RANK) },
    { name: `blk.0.${part}.weight.lora_b`, shape: [RANK, WIDTH], data: numbers(WIDTH * RANK) },
  ]);
  writeFileSync(path, encodeGguf([...own.values()], tensors));
  return path;
}

const ask = async (lora?: Record<string, number>) =>
  (
    await readAnswer(local, {
      model: 'mine',
      max_tokens: 24,
      ...(lora === undefined ? {} : { lora }),
    })
  ).text;

test('an adapter changes the answer, with its scale, and 0 is the model without it', async () => {
  const plain = await ask();
  await local.models.unload('mine');
  adapters = [makeAdapter('one', 1), makeAdapter('two', 2)];
  const both = await ask();
  assert.is.not(both, plain);
  assert.is(await ask({ 0: 1, 1: 1 }), both, 'these are the usual scales');
  assert.is(await ask({}), plain, 'none counts');
  const first = await ask({ 0: 1 });
  const second = await ask({ 1: 1 });
  assert.is(new Set([plain, both, first, second]).size, 4);
  assert.equal(
    await Promise.all([ask({ 1: 1 }), ask(), ask({ 0: 1 }), ask({})]),
    [second, both, first, plain],
    'at one time each has its own',
  );
  const { adapters: shown } = await local.models.show('mine');
  assert.equal(shown, adapters);
});

test('each choice of adapters has its identity, so an answer goes on only with the same ones', async () => {
  const plain = await local.identify('mine');
  adapters = [makeAdapter('one', 1)];
  const one = await local.identify('mine');
  adapters = [makeAdapter('one', 3)];
  const other = await local.identify('mine');
  assert.is(new Set([plain, one, other]).size, 3);
  adapters = [makeAdapter('one', 1)];
  assert.is(await local.identify('mine'), one);
  adapters = [join(local.folder, 'none.gguf')];
  assert.is(await local.identify('mine'), null);
});

test('a wrong adapter is refused by its name, with the reason', async () => {
  const refusal = async () => {
    const { code, message } = await failure(ask());
    return { code, message: message.replace(/-\d+\.lora/, '') };
  };
  adapters = [makeAdapter('strange', 1, [['general.architecture', 'string', 'qwen2']])];
  assert.equal(await refusal(), {
    code: 'model_invalid',
    message:
      'The adapter strange does not fit: it is for the architecture qwen2, and this is llama.',
  });
  adapters = [makeAdapter('other', 1, [['general.type', 'string', 'model']])];
  assert.match(
    (await refusal()).message,
    'The adapter other does not fit: it is not a LoRA adapter.',
  );
  adapters = [join(local.folder, 'none.gguf')];
  assert.match((await refusal()).message, 'none.gguf does not fit: it is not a GGUF file');
});

test('an adapter that the model does not have is named, and the built-in model has none', async () => {
  adapters = [makeAdapter('one', 1)];
  const error = await failure(ask({ 3: 1 }));
  assert.equal(
    [error.code, error.param, error.message],
    ['capability_missing', 'lora', 'mine has no adapter with the id 3: it has 1.'],
  );
  const mini = await failure(readAnswer(local, { model: 'svc-mini', lora: { 0: 1 } }));
  assert.match(mini.message, 'svc-mini has no adapter with the id 0: it has 0.');
});

test.run();
