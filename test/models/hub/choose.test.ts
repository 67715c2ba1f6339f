import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import { chooseFile, type HubFile } from '../../../src/models/hub/choose.ts';

const repo = 'user/repo';

/** A repository: path, size. */
function files(...entries: [path: string, size: number][]): HubFile[] {
  return entries.map(([path, size_bytes]) => ({ path, size_bytes, sha256: null }));
}

const choose = (all: HubFile[], want: { path?: string; quant?: string } = {}) =>
  chooseFile(all, { repo, path: want.path ?? null, quant: want.quant ?? null });

function refused(all: HubFile[], want: { path?: string; quant?: string } = {}): SvcError {
  try {
    choose(all, want);
  } catch (error) {
    return error as SvcError;
  }
  throw new Error('it was chosen');
}

const USUAL = files(
  ['README.md', 1],
  ['m-Q2_K.gguf', 20],
  ['m-Q4_K_M.gguf', 40],
  ['m-Q4_K_S.gguf', 38],
  ['m-Q8_0.gguf', 80],
  ['mmproj-m-f16.gguf', 5],
  ['m.imatrix.gguf', 2],
);

test('by default the model in Q4_K_M is chosen, and the others are listed', () => {
  const { file, others } = choose(USUAL);
  assert.is(file.path, 'm-Q4_K_M.gguf');
  assert.equal(others, ['m-Q2_K.gguf', 'm-Q4_K_S.gguf', 'm-Q8_0.gguf']);
});

test('without a Q4_K_M the smallest whole model is taken: no part, no vision file, no matrix', () => {
  const all = files(
    ['m-Q8_0.gguf', 80],
    ['m-Q5_K_M.gguf', 50],
    ['m-F16-00001-of-00002.gguf', 9],
    ['m-F16-00002-of-00002.gguf', 9],
    ['mmproj-m.gguf', 1],
    ['x-lora.gguf', 1],
  );
  assert.is(choose(all).file.path, 'm-Q5_K_M.gguf');
});

test('a quantization is found in any case, in a folder, and never as the beginning of another', () => {
  assert.is(choose(USUAL, { quant: 'q8_0' }).file.path, 'm-Q8_0.gguf');
  assert.is(choose(USUAL, { quant: 'Q4_K_S' }).file.path, 'm-Q4_K_S.gguf');
  assert.is(
    choose(files(['Q6_K/model.gguf', 1], ['Q8_0/model.gguf', 2]), { quant: 'Q6_K' }).file.path,
    'Q6_K/model.gguf',
  );
  assert.is(
    choose(files(['m.Q4_0.gguf', 1], ['m_Q5_0.gguf', 2]), { quant: 'Q5_0' }).file.path,
    'm_Q5_0.gguf',
  );
  assert.is(choose(files(['m-UD-IQ1_S.gguf', 1]), { quant: 'IQ1_S' }).file.path, 'm-UD-IQ1_S.gguf');
  assert.is(refused(USUAL, { quant: 'Q4_K' }).code, 'model_unknown');
  assert.is(refused(USUAL, { quant: 'Q4' }).code, 'model_unknown');
  assert.is(refused(USUAL, { quant: '.*' }).code, 'model_unknown');
});

test('a quantization that is not there, or that several files have, is answered with the choices', () => {
  const missing = refused(USUAL, { quant: 'Q6_K' });
  assert.is(missing.code, 'model_unknown');
  for (const path of ['m-Q2_K.gguf', 'm-Q4_K_M.gguf', 'm-Q8_0.gguf'])
    assert.ok(missing.message.includes(path), missing.message);
  const two = files(['base-Q4_K_M.gguf', 1], ['chat-Q4_K_M.gguf', 2]);
  for (const want of [{}, { quant: 'Q4_K_M' }])
    assert.ok(refused(two, want).message.includes('base-Q4_K_M.gguf, chat-Q4_K_M.gguf'));
});

test('a file is taken by its path, also one that would not be chosen', () => {
  assert.is(choose(USUAL, { path: 'mmproj-m-f16.gguf' }).file.path, 'mmproj-m-f16.gguf');
  const missing = refused(USUAL, { path: 'n.gguf' });
  assert.is(missing.code, 'model_unknown');
  assert.ok(missing.message.includes('m-Q4_K_M.gguf'));
});

test('a split model is refused for every form of reference', () => {
  const split = files(
    ['m-Q4_K_M-00001-of-00003.gguf', 1],
    ['m-Q4_K_M-00002-of-00003.gguf', 1],
    ['m-Q4_K_M-00003-of-00003.gguf', 1],
  );
  for (const want of [{}, { quant: 'Q4_K_M' }, { path: 'm-Q4_K_M-00001-of-00003.gguf' }]) {
    const failure = refused(split, want);
    assert.is(failure.code, 'model_invalid');
    assert.match(failure.message, /split model/);
  }
});

test('a repository without a model says so, and one with a thousand does not list them all', () => {
  assert.is(refused(files(['README.md', 1], ['model.safetensors', 9])).code, 'model_unknown');
  assert.is(refused([]).code, 'model_unknown');
  const many = files(
    ...Array.from({ length: 1000 }, (_, index): [string, number] => [`m${index}-Q4_K_M.gguf`, 1]),
  );
  assert.ok(refused(many).message.length < 1000);
  assert.match(refused(many).message, /980 more/);
});

test.run();
