import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { defaultLimits } from '../../../src/limits.ts';
import { importModel } from '../../../src/models/import.ts';
import { OtherModels } from '../../../src/providers/local/stores/others.ts';
import { makeGguf, makeSplitGguf } from '../../fixtures/models/make-gguf.ts';
import { failure } from '../../helpers/failure.ts';
import { type LocalHarness, makeLocalProvider, readAnswer } from '../../helpers/local-provider.ts';

/** Models in several files: one model for everyone who lists, asks, imports or removes it. */

let local: LocalHarness;
let outside: string;
test.before.each(() => {
  local = makeLocalProvider();
  outside = join(local.folder, '..', `${basename(local.folder)}-outside`);
  mkdirSync(outside);
});
test.after.each(async () => {
  await local.close();
  rmSync(outside, { recursive: true, force: true });
});

const put = (name: string) => join(local.folder, name);
const listed = async () => {
  const models = await local.provider.models(AbortSignal.timeout(60_000));
  return models.filter(({ built_in }) => !built_in);
};
const sizeOf = (files: readonly string[]) =>
  files.reduce((sum, file) => sum + statSync(file).size, 0);
const bring = (path: string, name: string | null = null) =>
  importModel(
    { path, name },
    {
      folder: local.folder,
      limits: defaultLimits,
      origins: null,
      isWriting: () => false,
      freeBytes: async () => 1e15,
    },
    new AbortController().signal,
  );
const refusal = async (work: Promise<unknown>) => {
  const { code, message } = await failure(work);
  return `${code}: ${message}`;
};

test('the parts of a model are one model: its size, its parts, its answer, its removal', async () => {
  const whole = makeGguf(join(outside, 'whole.gguf'));
  const parts = makeSplitGguf(put('big.gguf'), 3);
  const [model, ...others] = await listed();
  assert.equal(others, []);
  assert.equal(
    [model?.name, model?.state, model?.problem, model?.parts, model?.size_bytes],
    ['big', 'available', null, 3, sizeOf(parts)],
  );
  const alone = await readAnswer(local, { model: whole });
  for (const name of ['big', 'big.gguf', 'big-00001-of-00003', String(parts[1])])
    assert.is((await readAnswer(local, { model: name })).text, alone.text, name);
  assert.is((await local.models.show('big')).parameters, model?.parameters);
  const removed = await local.models.remove('big');
  assert.is(removed.size_bytes, model?.size_bytes);
  assert.equal(parts.filter(existsSync), []);
});

test('a missing or damaged part is named by the list, by a run and by an import', async () => {
  const names = ['first', 'middle', 'last'];
  for (const [index, name] of names.entries()) {
    const parts = makeSplitGguf(put(`${name}.gguf`), 3);
    rmSync(parts[index] ?? '');
  }
  const cut = makeSplitGguf(put('cut.gguf'), 2)[1] ?? '';
  truncateSync(cut, statSync(cut).size - 8);
  const stump = makeSplitGguf(put('stump.gguf'), 3)[2] ?? '';
  truncateSync(stump, 300);
  const models = new Map((await listed()).map((model) => [model.name, model]));
  assert.equal([...models.keys()].sort(), ['cut', 'stump', ...names].sort());
  for (const [index, name] of names.entries()) {
    const missing = `${name}-0000${index + 1}-of-00003.gguf`;
    assert.is(models.get(name)?.state, 'invalid');
    assert.is(models.get(name)?.problem, `the part ${missing} is missing`);
    assert.match(await refusal(readAnswer(local, { model: name })), missing);
    const other = `${name}-0000${index === 0 ? 2 : 1}-of-00003.gguf`;
    assert.match(await refusal(bring(put(other), 'again')), `the part ${missing} is missing`);
  }
  const isCut = `the part ${basename(cut)} is cut off: `;
  assert.match(models.get('cut')?.problem ?? '', isCut);
  assert.match(await refusal(readAnswer(local, { model: 'cut' })), isCut);
  const ends = `the part ${basename(stump)} ends in the middle of its header`;
  assert.is(models.get('stump')?.problem, ends);
  assert.match(await refusal(readAnswer(local, { model: 'stump' })), ends);
  for (const name of [...names, 'cut', 'stump']) await local.models.remove(name);
  assert.equal(
    readdirSync(local.folder).filter((name) => name.endsWith('.gguf')),
    [],
  );
});

test('an import takes every part, whichever one is named, and leaves nothing when it fails', async () => {
  const parts = makeSplitGguf(join(outside, 'my model.gguf'), 3);
  assert.is(basename(await bring(parts[1] ?? '')), 'my-model-00001-of-00003.gguf');
  await bring(parts[0] ?? '', 'named');
  assert.equal(
    (await listed()).map(({ name, parts: count }) => [name, count]),
    [
      ['my-model', 3],
      ['named', 3],
    ],
  );
  const single = makeGguf(join(outside, 'named.gguf'));
  assert.match(await refusal(bring(single)), 'model_exists');
  await bring(single, 'single');
  assert.match(await refusal(bring(parts[2] ?? '', 'single')), 'model_exists');
  const lone = join(outside, 'lone.gguf');
  renameSync(parts[1] ?? '', lone);
  assert.match(await refusal(bring(lone)), 'lone.gguf is part 2 of 3, and its name says');
  assert.match(
    await refusal(bring(parts[2] ?? '', 'x')),
    /my model-00002-of-00003\.gguf is missing/,
  );
  const left = readdirSync(local.folder).filter((name) => /gguf/.test(name));
  assert.is(left.length, 7);
});

test('what a download of parts left is one entry, and is removed as one', async () => {
  for (const [name, text] of [
    ['big-00001-of-00002.gguf.partial', '12345'],
    ['big-00002-of-00002.gguf.partial', '123'],
    ['big-00002-of-00002.gguf.partial.json', '{}'],
    ['big-mmproj.gguf.partial', '1'],
    ['other.gguf.partial', '1234'],
  ] as const)
    writeFileSync(put(name), text);
  const { partial } = await local.models.place();
  assert.equal(
    partial.map(({ name, size_bytes }) => [name, size_bytes]),
    [
      ['big', 9],
      ['other', 4],
    ],
  );
  const removed = await local.models.remove('big');
  assert.equal([removed.state, removed.size_bytes], ['partial', 9]);
  assert.equal(
    readdirSync(local.folder).filter((name) => /partial/.test(name)),
    ['other.gguf.partial'],
  );
});

test('the file for images of a model is shown with it and removed with it; one of none is listed', async () => {
  makeSplitGguf(put('big.gguf'), 2);
  makeGguf(put('big-mmproj.gguf'), { architecture: 'clip' });
  makeGguf(put('lone-mmproj.gguf'), { architecture: 'clip' });
  assert.equal(
    (await listed()).map(({ name, problem }) => [name, problem]),
    [
      ['big', null],
      ['lone-mmproj', 'it is a projector for images, not a model'],
    ],
  );
  assert.is((await local.models.show('big')).projector, put('big-mmproj.gguf'));
  await local.models.remove('big');
  assert.equal(
    (await listed()).map(({ name }) => name),
    ['lone-mmproj'],
  );
  assert.not.ok(existsSync(put('big-mmproj.gguf')));
});

test('a set beside a file of its name keeps its long name', async () => {
  makeSplitGguf(put('twice.gguf'), 2);
  makeGguf(put('twice.gguf'));
  assert.equal((await listed()).map(({ name }) => name).sort(), ['twice', 'twice-00001-of-00002']);
  await local.models.remove('twice-00002-of-00002');
  assert.equal(
    (await listed()).map(({ name }) => name),
    ['twice'],
  );
});

test('a set whose parts are links in the cache of a hub is used under the names of the links', async () => {
  const snapshot = join(outside, 'models--user--repo', 'snapshots', 'c');
  const blobs = join(outside, 'models--user--repo', 'blobs');
  for (const folder of [snapshot, blobs]) mkdirSync(folder, { recursive: true });
  for (const [index, part] of makeSplitGguf(join(snapshot, 'm.gguf'), 2).entries()) {
    renameSync(part, join(blobs, `b${index}`));
    symlinkSync(join(blobs, `b${index}`), part);
  }
  const env = { HOME: outside, HF_HUB_CACHE: outside };
  const others = new OtherModels({ env, folders: null, filesMax: 9 });
  const [{ name, path } = { name: '', path: '' }] = await others.find();
  assert.is(name, 'huggingface/user/repo/m');
  assert.is((await readAnswer(local, { model: path })).finish?.finish_reason, 'length');
});

test.run();
