import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { failure } from '../../helpers/failure.ts';
import { type LocalHarness, makeLocalProvider, readAnswer } from '../../helpers/local-provider.ts';

/** What the list and the error say of a file that llama.cpp cannot load. */

let local: LocalHarness;
test.before.each(() => {
  local = makeLocalProvider();
});
test.after.each(() => local.close());

const put = (name: string) => join(local.folder, `${name}.gguf`);
const shown = async (name: string) => {
  const { state, problem } = await local.models.show(name);
  return [state, problem];
};

/** A model whose bytes have another text in all places. */
function altered(name: string, from: string, to: string): void {
  const bytes = readFileSync(makeGguf(put(name)));
  for (let at = bytes.indexOf(from); at >= 0; at = bytes.indexOf(from, at + 1)) bytes.write(to, at);
  writeFileSync(put(name), bytes);
}

test('an unknown architecture is not checked before the load, and invalid with its reason after it', async () => {
  altered('new', 'llama', 'l\u001b[2a');
  assert.equal(await shown('new'), ['not_checked', null]);
  const { code, message } = await failure(readAnswer(local, { model: 'new' }));
  assert.is(code, 'model_invalid');
  assert.is(message, "The engine cannot load the model: unknown model architecture: 'l\ufffd[2a'.");
  assert.equal(await shown('new'), ['invalid', message]);
  makeGguf(put('new'));
  assert.equal(await shown('new'), ['available', null], 'another version is not judged by it');
});

test('a missing tensor is named after the load', async () => {
  altered('gap', 'blk.1.ffn_down.weight', 'blk.1.ffn_lost.weight');
  assert.equal(await shown('gap'), ['available', null]);
  const { message } = await failure(readAnswer(local, { model: 'gap' }));
  assert.match(message, "tensor 'blk.1.ffn_down.weight' not found");
  assert.equal(await shown('gap'), ['invalid', message]);
});

/** A model with another description of a tensor. */
function withTensor(name: string, change: (info: Buffer) => void): void {
  const bytes = readFileSync(makeGguf(put(name)));
  const tensor = 'blk.1.ffn_down.weight';
  change(bytes.subarray(bytes.indexOf(tensor) + tensor.length));
  writeFileSync(put(name), bytes);
}

test('a type of weights that llama.cpp does not know, and a wrong shape, are named', async () => {
  const [DIMENSIONS, FIRST] = [4, 8];
  withTensor('type', (info) => {
    info.writeUInt32LE(199, DIMENSIONS + info.readUInt32LE() * FIRST);
  });
  const type = await failure(readAnswer(local, { model: 'type' }));
  assert.is(type.code, 'model_invalid');
  assert.match(type.message, /blk\.1\.ffn_down\.weight.*199/);
  withTensor('shape', (info) => {
    info.writeBigUInt64LE(info.readBigUInt64LE(DIMENSIONS) / 2n, DIMENSIONS);
  });
  const shape = await failure(readAnswer(local, { model: 'shape' }));
  assert.is(shape.code, 'model_invalid');
  assert.match(shape.message, /tensor 'output_norm\.weight' has offset 419584, expected 403200/);
});

test('a context of no token is no model, and one of 32 bits is one', async () => {
  makeGguf(put('none'), { context: 0 });
  const reason = 'it says that its context holds no token';
  assert.equal(await shown('none'), ['invalid', reason]);
  assert.match((await failure(readAnswer(local, { model: 'none' }))).message, reason);
  makeGguf(put('large'), { context: 2 ** 31 });
  assert.is((await local.models.show('large')).context_length, 2 ** 31);
  const { token_ids } = await readAnswer(local, { model: 'large', max_tokens: 1 });
  assert.is(token_ids.length, 1);
});

test('what the reader of the header said is the reason, and not where the file is', async () => {
  makeGguf(put('twice'), { metadata: [['llama.attention.head_count', 'uint32', 7]] });
  const { message } = await failure(readAnswer(local, { model: 'twice' }));
  assert.match(message, 'llama.attention.head_count');
  assert.not.match(message, local.folder);
});

test('a long reason is cut', async () => {
  makeGguf(put('long'), { architecture: 'x'.repeat(5000) });
  const { code, message } = await failure(readAnswer(local, { model: 'long' }));
  assert.is(code, 'model_invalid');
  assert.ok(message.length < 400, `${message.length} characters`);
});

test('a projector and an adapter are no models, before any load', async () => {
  makeGguf(put('eyes'), { architecture: 'clip' });
  makeGguf(put('tune'), { metadata: [['general.type', 'string', 'adapter']] });
  for (const [name, reason] of [
    ['eyes', 'it is a projector for images, not a model'],
    ['tune', 'it is an adapter, not a model'],
  ] as const) {
    assert.equal(await shown(name), ['invalid', reason]);
    assert.match((await failure(readAnswer(local, { model: name }))).message, reason);
  }
  assert.equal(local.engine.events, [], 'no engine was started');
});

test('a load that cannot be prepared keeps no memory', async () => {
  let asked = 0;
  const adapters = () => {
    asked += 1;
    // The first time is for the identity of the model.
    if (asked === 2) throw new SvcError('model_invalid', 'no adapters');
    return [];
  };
  const other = makeLocalProvider({ library: { adapters } });
  try {
    makeGguf(join(other.folder, 'm.gguf'));
    assert.is((await failure(readAnswer(other, { model: 'm' }))).message, 'no adapters');
    assert.equal(other.room.residents(Date.now()), []);
    assert.equal(other.engine.events, []);
  } finally {
    await other.close();
  }
});

test('a file says whether it makes vectors or ranks texts', async () => {
  makeGguf(put('mean'), { metadata: [['llama.pooling_type', 'uint32', 1]] });
  makeGguf(put('rank'), { metadata: [['llama.pooling_type', 'uint32', 4]] });
  makeGguf(put('both'), { metadata: [['llama.attention.causal', 'bool', false]] });
  const of = async (name: string) => (await local.models.show(name)).capabilities;
  assert.equal(await of('mean'), ['embedding']);
  assert.equal(await of('rank'), ['reranking']);
  assert.equal(await of('both'), ['embedding']);
});

test.run();
