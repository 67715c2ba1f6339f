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
  const { model, projector, others } = choose(USUAL);
  assert.is(projector?.path, 'mmproj-m-f16.gguf');
  assert.is(model.path, 'm-Q4_K_M.gguf');
  assert.equal(others, ['m-Q2_K.gguf', 'm-Q4_K_S.gguf', 'm-Q8_0.gguf']);
});

test('without a Q4_K_M the smallest whole model is taken: no vision file, no matrix; parts count together', () => {
  const all = files(
    ['m-Q8_0.gguf', 80],
    ['m-Q5_K_M.gguf', 50],
    ['m-F16-00001-of-00002.gguf', 49],
    ['m-F16-00002-of-00002.gguf', 49],
    ['mmproj-m.gguf', 1],
    ['x-lora.gguf', 1],
  );
  assert.is(choose(all).model.path, 'm-Q5_K_M.gguf');
});

test('a quantization is found in any case, in a folder, and never as the beginning of another', () => {
  assert.is(choose(USUAL, { quant: 'q8_0' }).model.path, 'm-Q8_0.gguf');
  assert.is(choose(USUAL, { quant: 'Q4_K_S' }).model.path, 'm-Q4_K_S.gguf');
  assert.is(
    choose(files(['Q6_K/model.gguf', 1], ['Q8_0/model.gguf', 2]), { quant: 'Q6_K' }).model.path,
    'Q6_K/model.gguf',
  );
  assert.is(
    choose(files(['m.Q4_0.gguf', 1], ['m_Q5_0.gguf', 2]), { quant: 'Q5_0' }).model.path,
    'm_Q5_0.gguf',
  );
  assert.is(
    choose(files(['m-UD-IQ1_S.gguf', 1]), { quant: 'IQ1_S' }).model.path,
    'm-UD-IQ1_S.gguf',
  );
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
  assert.is(choose(USUAL, { path: 'mmproj-m-f16.gguf' }).model.path, 'mmproj-m-f16.gguf');
  const missing = refused(USUAL, { path: 'n.gguf' });
  assert.is(missing.code, 'model_unknown');
  assert.ok(missing.message.includes('m-Q4_K_M.gguf'));
});

test('all parts of a split model are chosen for every form of reference, with their sum', () => {
  const part = (number: number) => `Q4/m-Q4_K_M-0000${number}-of-00003.gguf`;
  const parts = [part(1), part(2), part(3)] as const;
  const split = files([parts[2], 4], [parts[0], 1], [parts[1], 2], ['m-Q8_0.gguf', 9]);
  for (const want of [{}, { quant: 'q4_k_m' }, { path: parts[0] }, { path: parts[2] }]) {
    const { model } = choose(split, want);
    assert.equal(
      [model.path, model.size_bytes, model.parts.map(({ path }) => path)],
      [parts[0], 7, parts],
    );
  }
  assert.equal(choose(split, { quant: 'Q8_0' }).others, []);
  assert.equal(
    choose(files([parts[0], 1], [parts[1], 1], [parts[2], 1], ['m-Q2_K.gguf', 9])).others,
    ['m-Q2_K.gguf'],
  );
});

test('a split model that lacks a part is refused with the name of the part', () => {
  const split = files(['m-Q4_K_M-00001-of-00003.gguf', 1], ['m-Q4_K_M-00003-of-00003.gguf', 1]);
  for (const want of [{}, { quant: 'Q4_K_M' }, { path: 'm-Q4_K_M-00001-of-00003.gguf' }]) {
    const failure = refused(split, want);
    assert.is(failure.code, 'model_invalid');
    assert.is(
      failure.message,
      'The repository has no m-Q4_K_M-00002-of-00003.gguf, a part of the model.',
    );
  }
});

test('of several files for images the one of the model is taken, in F16, and else the smallest', () => {
  const image = (...paths: string[]) =>
    choose(
      files(['a-7B-Q4_K_M.gguf', 40], ...paths.map((path, at): [string, number] => [path, 9 - at])),
    ).projector?.path;
  assert.is(image(), undefined);
  assert.is(image('mmproj-BF16.gguf', 'mmproj-F16.gguf', 'mmproj-F32.gguf'), 'mmproj-F16.gguf');
  assert.is(image('mmproj-a-2B-f16.gguf', 'mmproj-a-7B-Q8_0.gguf'), 'mmproj-a-7B-Q8_0.gguf');
  assert.is(image('mmproj-x-Q8_0.gguf', 'mmproj-x-BF16.gguf'), 'mmproj-x-BF16.gguf');
  assert.is(choose(USUAL, { path: 'm.imatrix.gguf' }).projector, null);
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
