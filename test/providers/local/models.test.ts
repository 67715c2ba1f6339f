import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ModelRecord } from '../../../src/contract/model-record.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { Inspector } from '../../../src/providers/local/inspector.ts';
import { fileVersion, projectorOf } from '../../../src/providers/local/model-files.ts';
import { OtherModels } from '../../../src/providers/local/stores/others.ts';
import { type Entry, encodeGguf } from '../../fixtures/models/gguf-bytes.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { failure } from '../../helpers/failure.ts';
import { type LocalHarness, makeLocalProvider, readAnswer } from '../../helpers/local-provider.ts';
import { waitFor } from '../../helpers/wait.ts';

let local: LocalHarness;
test.before.each(() => {
  local = makeLocalProvider();
});
test.after.each(() => local.close());

const list = () => local.provider.models(AbortSignal.timeout(60_000));
const put = (name: string) => join(local.folder, name);
const byName = async (name: string): Promise<ModelRecord | undefined> =>
  (await list()).find((model) => model.name === name);

test('the built-in model comes first, then the files of the folder by name, each with its metadata', async () => {
  mkdirSync(put('org/deep'), { recursive: true });
  makeGguf(put('org/deep/b.gguf'), { context: 1024 });
  makeGguf(put('a.gguf'), { template: null });
  const models = await list();
  assert.equal(
    models.map(({ id }) => id),
    ['local/svc-mini', 'local/a', 'local/org/deep/b'],
  );
  const [mini, a, b] = models;
  assert.ok(mini?.built_in && mini.default && (mini.parameters ?? 0) > 100_000);
  const digest = `sha256:${createHash('sha256')
    .update(readFileSync(put('a.gguf')))
    .digest('hex')}`;
  const expected = {
    state: 'available',
    digest,
    quantization: 'F32',
    context_length: 512,
    capabilities: ['completion'],
    default: false,
    built_in: false,
    path: put('a.gguf'),
  };
  assert.equal({ ...a, ...expected }, a);
  assert.is(b?.context_length, 1024);
  assert.equal(b?.capabilities, ['chat', 'completion']);
});

test('a file says what its model can do, its architecture, and when it was changed', async () => {
  const template = (text: string) => ({ template: text });
  const last = '{{ messages[-1].content }}';
  makeGguf(put('chat.gguf'), template(last));
  const tools = '{% if tools %}{{ tools | tojson }}{% endif %}';
  makeGguf(put('tools.gguf'), template(`${last}{# <tool_call> #}${tools}`));
  makeGguf(put('unread.gguf'), template(last + tools));
  makeGguf(put('thinks.gguf'), template(`${last}<think></think>`));
  makeGguf(put('unusable.gguf'), template('{{ tools }}<think></think>'));
  makeGguf(put('embeds.gguf'), { metadata: [['llama.pooling_type', 'uint32', 1]] });
  const capabilities = async (name: string) => (await byName(name))?.capabilities;
  assert.equal(await capabilities('chat'), ['chat', 'completion']);
  assert.equal(await capabilities('tools'), ['chat', 'completion', 'tools']);
  assert.equal(await capabilities('unread'), ['chat', 'completion'], 'no form of calls is known');
  assert.equal(await capabilities('thinks'), ['chat', 'completion', 'thinking']);
  // The plain form that replaces it has neither.
  assert.equal(await capabilities('unusable'), ['chat', 'completion']);
  assert.equal(await capabilities('embeds'), ['embedding']);
  const chat = await byName('chat');
  assert.is(chat?.architecture, 'llama');
  assert.is(chat?.modified_at, new Date(statSync(put('chat.gguf')).mtimeMs).toISOString());
});

test('a default model outside the folder is in the list, and the probe names it when it is missing', async () => {
  await local.close();
  const elsewhere = makeLocalProvider();
  const path = makeGguf(join(elsewhere.folder, 'my model.gguf'));
  local = makeLocalProvider({ model: path });
  const models = await list();
  assert.equal(
    models.map(({ name, default: standard }) => [name, standard]),
    [
      ['svc-mini', false],
      [path, true],
    ],
  );
  assert.equal(await local.provider.probe(AbortSignal.timeout(60_000)), { models: ['svc-mini'] });
  await elsewhere.close();
  const failed = await local.provider
    .probe(AbortSignal.timeout(60_000))
    .catch((error: unknown) => error);
  assert.match(String(failed), 'my model.gguf');
});

test('a file that is no model, or a damaged one, is listed as invalid and harms nothing', async () => {
  const whole = readFileSync(makeGguf(put('whole.gguf')));
  const cases: Record<string, Buffer> = {
    empty: Buffer.alloc(0),
    magic: whole.subarray(0, 4),
    text: Buffer.from('GGUF is a format'),
    head: whole.subarray(0, 2000),
    cut: whole.subarray(0, whole.length - 1),
    version: Buffer.concat([Buffer.from('GGUF'), Buffer.from([9, 0, 0, 0]), whole.subarray(8)]),
    weightless: encodeGguf([['general.architecture', 'string', 'llama']], []),
    counts: Buffer.concat([Buffer.from('GGUF'), Buffer.from([3, 0, 0, 0]), Buffer.alloc(16, 0xff)]),
  };
  for (const [name, bytes] of Object.entries(cases)) writeFileSync(put(`${name}.gguf`), bytes);
  const states = Object.fromEntries((await list()).map(({ name, state }) => [name, state]));
  assert.equal(states, {
    'svc-mini': 'available',
    whole: 'available',
    ...Object.fromEntries(Object.keys(cases).map((name) => [name, 'invalid'])),
  });
});

test('a file header that costs too much is given up, and the models after it are still read', async () => {
  await local.close();
  local = makeLocalProvider({ limits: { model_inspect_ms: 1500 } });
  const keys = Array.from(
    { length: 20 },
    (_, key): Entry => [`k${key}`, 'strings', Array.from({ length: 100_000 }, () => '')],
  );
  writeFileSync(put('bomb.gguf'), encodeGguf(keys, []));
  makeGguf(put('good.gguf'));
  let turns = 0;
  const counting = setInterval(() => (turns += 1), 20);
  assert.is((await byName('bomb'))?.state, 'invalid');
  clearInterval(counting);
  assert.ok(turns > 3, 'the daemon goes on while the file is read');
  assert.is((await byName('good'))?.state, 'available');
});

test('a listing that reaches its deadline returns what it has read, and the next one returns more', async () => {
  makeGguf(put('a.gguf'));
  const early = (await local.provider.models(AbortSignal.abort())).find(({ name }) => name === 'a');
  assert.is(early?.parameters, null);
  assert.is(early?.state, 'not_checked');
  assert.ok(((await byName('a'))?.parameters ?? 0) > 0);
});

test('the folder has no more models than the limit says', async () => {
  await local.close();
  local = makeLocalProvider({ limits: { local_models: 2 } });
  for (const name of ['a', 'b', 'c']) makeGguf(put(`${name}.gguf`));
  const names = (await local.provider.models(new AbortController().signal)).map(({ name }) => name);
  assert.equal(names.sort(), ['a', 'b', 'svc-mini']);
});

test('the same file by another path is the listed model', async () => {
  makeGguf(put('a.gguf'));
  const elsewhere = mkdtempSync(join(tmpdir(), 'svc-twin-'));
  try {
    for (const make of [linkSync, symlinkSync]) {
      const path = join(elsewhere, `${make.name}.gguf`);
      make(put('a.gguf'), path);
      await readAnswer(local, { model: path, max_tokens: 1 });
    }
  } finally {
    rmSync(elsewhere, { recursive: true });
  }
  const loaded = local.models.loaded(Date.now()).models.map(({ id }) => id);
  assert.equal(loaded, ['local/a']);
});

test('a model of another program is one model, by its name and by a path', async () => {
  await local.close();
  const home = mkdtempSync(join(tmpdir(), 'svc-twins-'));
  try {
    const studio = join(home, '.lmstudio', 'models', 'org');
    mkdirSync(studio, { recursive: true });
    makeGguf(join(studio, 'a.gguf'));
    symlinkSync(join(studio, 'a.gguf'), join(home, 'link.gguf'));
    linkSync(join(studio, 'a.gguf'), join(home, 'hard.gguf'));
    const others = new OtherModels({ env: { HOME: home }, folders: null, filesMax: 9 });
    local = makeLocalProvider({ library: { others } });
    for (const name of ['org/a', join(home, 'link.gguf'), join(home, 'hard.gguf')])
      await readAnswer(local, { model: name, max_tokens: 2 });
    const { models } = local.models.loaded(Date.now());
    assert.equal(
      models.map(({ id }) => id),
      ['local/lm-studio/org/a'],
    );
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
});

test('an unload cancels the load at the start, which no request waits for', async () => {
  const warmed = failure(local.warm());
  const loaded = () => local.models.loaded(Date.now()).models;
  await waitFor('it loads', () => loaded().some(({ state }) => state === 'loading'));
  assert.is(await local.models.unload('svc-mini'), 'local/svc-mini');
  assert.equal(loaded(), []);
  assert.is((await warmed).code, 'run_cancelled');
  assert.ok((await readAnswer(local, { max_tokens: 2 })).finish, 'the next run loads it');
});

test('a changed file is read again', async () => {
  makeGguf(put('a.gguf'), { context: 512 });
  assert.is((await byName('a'))?.context_length, 512);
  makeGguf(put('a.gguf'), { context: 2048, layers: 3 });
  assert.is((await byName('a'))?.context_length, 2048);
  truncateSync(put('a.gguf'), 5000);
  assert.is((await byName('a'))?.state, 'invalid');
  unlinkSync(put('a.gguf'));
  assert.is(await byName('a'), undefined);
});

test('the error for an unknown name lists the known ones', async () => {
  makeGguf(put('a.gguf'));
  for (const name of [
    'b',
    '',
    '../a',
    'a/../../x',
    'a\0',
    'x'.repeat(5000),
    '/no/such.gguf',
    'local/b',
    '.',
    'svc-mini/x',
  ]) {
    const { code, details } = await failure(local.models.show(name));
    assert.is(code, 'model_unknown', name);
    assert.equal(details, { known: ['svc-mini', 'a'] });
  }
});

test('the beginning of one name is that model, of several it names them, and removes none', async () => {
  for (const name of ['SmolLM2-135M-Instruct.Q4_1', 'Qwen3-0.6B', 'Qwen3-4B'])
    makeGguf(put(`${name}.gguf`));
  mkdirSync(put('org'));
  makeGguf(put('org/tiny-one.gguf'));
  const found = async (name: string) => (await local.models.show(name)).name;
  assert.is(await found('smollm2'), 'SmolLM2-135M-Instruct.Q4_1');
  assert.is(await found('local/SmolLM2-135'), 'SmolLM2-135M-Instruct.Q4_1');
  assert.is(await found('tiny'), 'org/tiny-one');
  assert.is(await found('qwen3-0'), 'Qwen3-0.6B');
  const { code, message } = await failure(local.models.show('qwen3'));
  assert.is(code, 'model_unknown');
  assert.match(message, / Did you mean one of these: Qwen3-0\.6B, Qwen3-4B\?$/);
  assert.is((await failure(local.models.show('s'))).code, 'model_unknown', 'one letter is no name');
  assert.is((await failure(local.models.remove('smollm2'))).code, 'model_unknown');
  assert.is(await found('smollm2'), 'SmolLM2-135M-Instruct.Q4_1');
});

test('a path that is no readable file is refused with its reason, at once', async () => {
  mkdirSync(put('folder.gguf'));
  assert.match((await failure(local.models.show('folder'))).message, 'is not a file');
  if (process.platform === 'win32') return;
  execFileSync('mkfifo', [put('pipe.gguf')]);
  assert.match((await failure(local.models.show('pipe'))).message, 'is not a file');
  symlinkSync('/dev/zero', put('zero.gguf'));
  assert.match((await failure(local.models.show('zero'))).message, 'is not a file');
  symlinkSync(put('loop.gguf'), put('loop.gguf'));
  assert.match((await failure(local.models.show('loop'))).message, 'cannot be read');
  makeGguf(put('secret.gguf'));
  chmodSync(put('secret.gguf'), 0);
  if (process.getuid?.() !== 0)
    assert.match((await failure(local.models.show('secret'))).message, 'cannot be read');
  const states = new Map((await list()).map(({ name, state }) => [name, state]));
  for (const name of ['pipe', 'zero', 'loop']) assert.is(states.get(name), 'invalid', name);
});

test('all paths outside of the models folder get the same answer, whatever is there', async () => {
  const outside = mkdtempSync(join(tmpdir(), 'svc-outside-'));
  try {
    const at = (name: string) => join(outside, name);
    mkdirSync(at('folder'));
    writeFileSync(at('text'), 'a letter');
    writeFileSync(at('secret'), 'a key');
    chmodSync(at('secret'), 0);
    symlinkSync(at('loop'), at('loop'));
    const errors = new Set<string>();
    for (const name of [
      'nothing',
      'folder',
      'folder/nothing',
      'text',
      'text/nothing',
      'secret',
      'loop',
    ]) {
      const { code, message, details } = await failure(local.models.show(at(name)));
      errors.add(JSON.stringify([code, message.replace(at(name), '<path>'), details]));
    }
    for (const device of ['/dev/zero', '/etc/shadow']) {
      const { code, message, details } = await failure(local.models.show(device));
      errors.add(JSON.stringify([code, message.replace(device, '<path>'), details]));
    }
    assert.is(errors.size, 1, [...errors].join('\n'));
    makeGguf(at('model.gguf'));
    assert.is((await local.models.show(at('model.gguf'))).path, at('model.gguf'));
  } finally {
    rmSync(outside, { recursive: true, force: true });
  }
});

test('a model is found by name, by path and with its provider in front', async () => {
  makeGguf(put('a.b.gguf'));
  for (const name of ['a.b', 'a.b.gguf', 'local/a.b', put('a.b.gguf'), `local/${put('a.b.gguf')}`])
    assert.is((await local.models.show(name)).id, 'local/a.b', name);
  assert.ok((await local.models.show('svc-mini')).built_in);
});

test('a name is found in every form of Unicode', async () => {
  makeGguf(put('e\u0301te\u0301.gguf'));
  makeGguf(put('\u00f1.gguf'));
  for (const name of ['\u00e9t\u00e9', 'e\u0301te\u0301.gguf', 'n\u0303', 'local/\u00f1'])
    assert.is((await local.models.show(name)).state, 'available', name);
  await local.models.remove('\u00e9t\u00e9');
  assert.equal(
    readdirSync(local.folder).filter((name) => name.endsWith('.gguf')),
    ['\u00f1.gguf'],
  );
});

test('a file cannot take the name of the built-in model', async () => {
  makeGguf(put('svc-mini.gguf'));
  assert.equal(
    (await list()).map(({ id, built_in }) => [id, built_in]),
    [['local/svc-mini', true]],
  );
  assert.ok((await local.models.show('svc-mini')).built_in);
});

test('the metadata of a model file is shown, long lists by their length', async () => {
  makeGguf(put('a.gguf'), {
    metadata: [
      ['x.few', 'int32s', [1, 2, 3]],
      ['__proto__', 'string', 'p'],
      ['x.text', 'string', 't'.repeat(100_000)],
    ],
  });
  const { metadata } = await local.models.show('a');
  assert.equal(metadata['tokenizer.ggml.tokens'], { count: 355 });
  assert.equal(metadata['x.few'], [1, 2, 3]);
  assert.is((metadata['x.text'] as string).length, 65_536);
  assert.is(metadata['llama.block_count'], 2);
  assert.ok(JSON.stringify(metadata).length < 100_000);
});

test('metadata that is too large is left out, and its size is shown', async () => {
  makeGguf(put('a.gguf'), {
    metadata: [
      ...Array.from(
        { length: 40 },
        (_, index): Entry => [`x.${index}`, 'string', 't'.repeat(60_000)],
      ),
      ['y.last', 'string', 'short'],
    ],
  });
  const { metadata, metadata_left_out } = await local.models.show('a');
  const texts = Object.keys(metadata).filter((key) => key.startsWith('x.'));
  assert.is(metadata_left_out, 40 - texts.length);
  assert.ok(
    texts.length > 0 &&
      Buffer.byteLength(JSON.stringify(metadata)) <= defaultLimits.model_metadata_bytes + 1024,
    `${texts.length} texts`,
  );
  assert.is(metadata['y.last'], 'short', 'what fits behind them is there');
});

test('a list keeps a few short values of a file, however much metadata it has', async () => {
  const path = makeGguf(put('a.gguf'), { metadata: [['x.text', 'string', 't'.repeat(60_000)]] });
  const inspector = new Inspector(defaultLimits);
  const version = await fileVersion(path);
  assert.ok(version);
  const kept = await inspector.inspect(version);
  assert.is(kept.problem, null);
  assert.ok(JSON.stringify(kept).length < 1000, Object.keys(kept).join(', '));
  assert.is((await inspector.describe(version)).metadata?.metadata['x.text'], 't'.repeat(60_000));
});

test('a model in the folder can be removed, even a damaged one; other files cannot', async () => {
  mkdirSync(put('org'));
  makeGguf(put('org/a.gguf'));
  writeFileSync(put('broken.gguf'), 'x');
  assert.is((await local.models.remove('local/org/a')).name, 'org/a');
  assert.not(existsSync(put('org/a.gguf')));
  assert.is((await local.models.remove('broken')).state, 'invalid');
  assert.is((await failure(local.models.remove('local/org/a'))).code, 'model_unknown');
  assert.is((await failure(local.models.remove('svc-mini'))).code, 'model_in_use');

  const outside = makeLocalProvider();
  const path = makeGguf(join(outside.folder, 'other.gguf'));
  for (const name of [path, `../${path.split('/').slice(-2).join('/')}`, `local/${path}`]) {
    assert.ok(
      ['invalid_request', 'model_unknown'].includes(
        (await failure(local.models.remove(name))).code,
      ),
      name,
    );
  }
  symlinkSync(path, put('link.gguf'));
  await local.models.remove('link');
  assert.ok(existsSync(path), 'only the link goes');
  await outside.close();
});

test('the file for images beside a model is found by its name, or in a folder of one model', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-projectors-'));
  try {
    const put = (at: string, ...names: string[]) => {
      mkdirSync(join(folder, at), { recursive: true });
      for (const name of names) writeFileSync(join(folder, at, name), '');
    };
    put('many', 'gemma-3-4b-it-Q4_K_M.gguf', 'other-Q8_0.gguf', 'mmproj-gemma-3-4b-it-f16.gguf');
    put('one', 'vl-00001-of-00002.gguf', 'vl-00002-of-00002.gguf', 'mmproj-model-f16.gguf');
    put('none', 'text.gguf', 'lora-mmprojection.gguf');
    const found = async (path: string) =>
      (await projectorOf(join(folder, path)))?.slice(folder.length + 1) ?? null;
    assert.is(await found('many/gemma-3-4b-it-Q4_K_M.gguf'), 'many/mmproj-gemma-3-4b-it-f16.gguf');
    assert.is(await found('many/other-Q8_0.gguf'), null);
    assert.is(await found('one/vl-00001-of-00002.gguf'), 'one/mmproj-model-f16.gguf');
    assert.is(await found('none/text.gguf'), null);
    assert.is(await found('nowhere/text.gguf'), null);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('a model in use is not removed; an idle one is unloaded first', async () => {
  makeGguf(put('long.gguf'), { context: 4096 });
  const abort = new AbortController();
  const heard = readAnswer(local, { model: 'long', max_tokens: 4000 }, abort.signal);
  await waitFor('it is loading', () => local.state() === 'loading', { every_ms: 1 });
  // It may be loaded before the list is read.
  assert.match((await byName('long'))?.state ?? '', /^load(ing|ed)$/);
  assert.is((await failure(local.models.remove('long'))).code, 'model_in_use');
  await waitFor('it is busy', () => local.state() === 'warm.busy', { every_ms: 1 });
  assert.is((await failure(local.models.remove('long'))).code, 'model_in_use');
  abort.abort();
  await heard;
  await waitFor('it is idle', () => local.state() === 'warm.idle');
  assert.is((await byName('long'))?.state, 'loaded');
  await local.models.remove('long');
  assert.is(local.state(), 'cold');
  assert.not(existsSync(put('long.gguf')));
});

test.run();
