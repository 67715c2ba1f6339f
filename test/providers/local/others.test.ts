import { createHash } from 'node:crypto';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import { readDefaults, withDefaults } from '../../../src/providers/local/stores/defaults.ts';
import { OtherModels } from '../../../src/providers/local/stores/others.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { failure } from '../../helpers/failure.ts';
import { makeLocalProvider, readAnswer, runRequest } from '../../helpers/local-provider.ts';

/** The model files of other programs: found, used without a copy, and never changed. */

let home: string;
test.before.each(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), 'svc-others-')));
});
test.after.each(() => rmSync(home, { recursive: true, force: true }));

const at = (...parts: string[]) => join(home, ...parts);
const find = (env: NodeJS.ProcessEnv = {}, folders: string[] | null = null) =>
  new OtherModels({ env: { HOME: home, ...env }, folders, filesMax: 100 }).find();

function write(path: string, text: string): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

const HEX = 'a'.repeat(64);

/** A manifest of Ollama, and the file that it names. */
function ollama(root: string, name: string, hex = HEX, manifests = 'manifests'): string {
  const layers = [
    { mediaType: 'application/vnd.ollama.image.license', digest: `sha256:${'b'.repeat(64)}` },
    { mediaType: 'application/vnd.ollama.image.model', digest: `sha256:${hex}`, size: 1 },
  ];
  write(join(root, manifests, name), JSON.stringify({ schemaVersion: 2, layers }));
  mkdirSync(join(root, 'blobs'), { recursive: true });
  return makeGguf(join(root, 'blobs', `sha256-${hex}`));
}

test('models of Ollama have the names that Ollama gives them, and their digest', async () => {
  const root = at('.ollama', 'models');
  const path = ollama(root, 'registry.ollama.ai/library/llama3.2/3b');
  ollama(root, 'registry.ollama.ai/user/own/latest');
  ollama(root, 'hf.co/user/repo/Q4_K_M');
  ollama(root, 'ollama.com/library/newer/1b', HEX, 'manifests-v2');
  assert.equal(
    (await find()).map(({ name }) => name),
    [
      'ollama/hf.co/user/repo:Q4_K_M',
      'ollama/llama3.2:3b',
      'ollama/user/own:latest',
      'ollama/newer:1b',
    ],
  );
  const [, model] = await find();
  assert.equal(model, {
    name: 'ollama/llama3.2:3b',
    path,
    source: 'ollama',
    digest: `sha256:${HEX}`,
  });
});

test('a manifest that is damaged, huge or hostile is invalid with its reason', async () => {
  const root = at('.ollama', 'models');
  const library = join(root, 'manifests', 'registry.ollama.ai', 'library');
  const file = (digest: unknown) =>
    JSON.stringify({ layers: [{ mediaType: 'application/vnd.ollama.image.model', digest }] });
  write(join(library, 'text', 'a'), 'no JSON');
  write(join(library, 'null', 'a'), 'null');
  write(join(library, 'list', 'a'), '{"layers":[null,7]}');
  write(join(library, 'huge', 'a'), `${file(`sha256:${HEX}`)}${' '.repeat(70_000)}`);
  write(join(library, 'escape', 'a'), file('sha256:../../../../etc/passwd'));
  write(join(library, 'number', 'a'), file(7));
  write(join(library, 'pruned', 'a'), file(`sha256:${'c'.repeat(64)}`));
  write(join(library, 'bom', 'a'), `\ufeff${file(`sha256:${HEX}`)}`);
  write(join(library, 'cut', 'a'), file(`sha256:${HEX}`).slice(0, -2));
  write(join(library, '.DS_Store'), 'x');
  const reasons = (await find()).map(({ name, problem, digest }) => [name, problem, digest]);
  const because = (name: string, why: string) => [
    `ollama/${name}:a`,
    `its manifest of Ollama ${why}`,
    null,
  ];
  assert.equal(reasons, [
    because('bom', 'is not JSON'),
    because('cut', 'is not JSON'),
    because('escape', 'names no weights'),
    because('huge', 'is too large'),
    because('list', 'names no weights'),
    because('null', 'names no weights'),
    because('number', 'names no weights'),
    because('text', 'is not JSON'),
  ]);
});

test('a model with an adapter is invalid, and the layers that are not used are named', async () => {
  const root = at('.ollama', 'models');
  const library = join(root, 'manifests', 'registry.ollama.ai', 'library');
  ollama(root, 'registry.ollama.ai/library/base/1b');
  const layer = (kind: string) => ({
    mediaType: `application/vnd.ollama.image.${kind}`,
    digest: `sha256:${HEX}`,
  });
  const made = (...kinds: string[]) => JSON.stringify({ layers: ['model', ...kinds].map(layer) });
  write(join(library, 'adapted', '1b'), made('adapter', 'params'));
  write(join(library, 'told', '1b'), made('template', 'messages', 'projector', 'license'));
  const others = new OtherModels({ env: { HOME: home }, folders: null, filesMax: 9 });
  const local = makeLocalProvider({ library: { others } });
  try {
    const models = await local.provider.models(AbortSignal.timeout(60_000));
    const states = models.map(({ name, state, problem }) => [name, state, problem]).slice(1);
    const why = 'it has an adapter, which the engine does not use';
    assert.equal(states, [
      ['ollama/adapted:1b', 'invalid', why],
      ['ollama/base:1b', 'available', null],
      ['ollama/told:1b', 'available', null],
    ]);
    const refused = await failure(readAnswer(local, { model: 'adapted:1b' }));
    assert.equal([refused.code, refused.message.includes(why)], ['model_invalid', true]);
    assert.ok((await readAnswer(local, { model: 'told:1b', max_tokens: 2 })).finish);
    assert.equal((await local.models.show('told:1b')).unused, [
      'template',
      'messages',
      'projector',
    ]);
  } finally {
    await local.close();
  }
});

/** A model of Ollama with these layers around its weights. */
function ollamaWith(name: string, layers: Record<string, string>): void {
  const root = at('.ollama', 'models');
  ollama(root, `registry.ollama.ai/library/${name}/1b`);
  const all = Object.entries(layers).map(([kind, text]) => {
    const hex = createHash('sha256').update(text).digest('hex');
    write(join(root, 'blobs', `sha256-${hex}`), text);
    return { mediaType: `application/vnd.ollama.image.${kind}`, digest: `sha256:${hex}` };
  });
  const model = { mediaType: 'application/vnd.ollama.image.model', digest: `sha256:${HEX}` };
  const manifest = join(root, 'manifests', 'registry.ollama.ai', 'library', name, '1b');
  write(manifest, JSON.stringify({ layers: [model, ...all] }));
}

test('the system text and the parameters of a model of Ollama count where a request says nothing', async () => {
  const params = { num_predict: 3, temperature: 0.5, stop: ['<end>'], mirostat: 2, top_p: 7 };
  ollamaWith('plain', {});
  ollamaWith('made', {
    system: 'You are a pirate who answers in verse.',
    params: JSON.stringify(params),
    template: '{{ .Prompt }}',
  });
  const others = new OtherModels({ env: { HOME: home }, folders: null, filesMax: 9 });
  const local = makeLocalProvider({ library: { others } });
  const signal = AbortSignal.timeout(60_000);
  try {
    const shown = await local.models.show('made:1b');
    assert.equal(shown.unused, ['template', 'params mirostat', 'params top_p']);
    assert.equal(shown.defaults, {
      system: 'You are a pirate who answers in verse.',
      options: { max_tokens: 3, temperature: 0.5, stop: ['<end>'] },
    });
    assert.is((await local.models.show('plain:1b')).defaults, undefined);
    const count = (model: string, changes = {}) =>
      local.provider.countTokens?.(runRequest({ model, ...changes }), signal);
    const [plain = 0, made = 0] = [await count('plain:1b'), await count('made:1b')];
    assert.ok(made > plain + 5, `${plain} and ${made} tokens`);
    const system = { system: 'Be brief.' };
    assert.is(await count('made:1b', system), await count('plain:1b', system));
    const answer = await readAnswer(local, { model: 'made:1b', max_tokens: null });
    assert.ok(answer.token_ids.length <= 3, `${answer.token_ids.length} tokens`);
    const longer = await readAnswer(local, { model: 'made:1b', max_tokens: 9 });
    assert.ok(longer.token_ids.length > 3, 'what the request says counts');
  } finally {
    await local.close();
  }
});

test('layers that are damaged, huge or elsewhere are named as unused, and nothing else changes', () => {
  assert.equal(readDefaults(undefined, undefined), { defaults: null, unused: [] });
  assert.equal(readDefaults(null, null), { defaults: null, unused: ['system', 'params'] });
  for (const text of ['no JSON', 'null', '[]', '7'])
    assert.equal(readDefaults('', text), { defaults: null, unused: ['params'] });
  const wrong = { temperature: 'hot', stop: [7], top_k: 1.5, num_ctx: 1, __proto__: 1, seed: -1 };
  const { defaults, unused } = readDefaults('x', JSON.stringify(wrong));
  assert.equal(defaults, { system: 'x', options: {} });
  assert.equal(
    unused,
    ['temperature', 'stop', 'top_k', 'num_ctx'].map((name) => `params ${name}`),
  );
  const known = '{"stop":"a","num_ctx":99999999,"num_predict":-1,"seed":7}';
  const { options } = readDefaults(undefined, known).defaults ?? { options: {} };
  assert.equal([options.stop, options.seed, options.max_tokens], [['a'], 7, 1_048_576]);
  assert.ok((options.context_tokens ?? 0) > 4096);
});

test('the seed of a model is for requests without one, and continued texts get no system text', () => {
  const defaults = { system: 'x', options: { seed: 7 } };
  const own = withDefaults(runRequest({ seed: 3, seed_asked: true }), defaults);
  assert.equal([own.seed, own.seed_asked, own.messages[0]?.role], [3, true, 'system']);
  const without = withDefaults(runRequest({ seed: 3, seed_asked: false, raw: true }), defaults);
  assert.equal([without.seed, without.seed_asked, without.messages[0]?.role], [7, true, 'user']);
});

test('models of LM Studio and of the cache of Hugging Face are found, without vision parts', async () => {
  const studio = at('.lmstudio', 'models', 'org', 'model-GGUF');
  mkdirSync(studio, { recursive: true });
  const first = makeGguf(join(studio, 'model-Q4_K_M.GGUF'));
  makeGguf(join(studio, 'mmproj-model-f16.gguf'));
  makeGguf(join(studio, 'large-00002-of-00003.gguf'));
  const repo = at('.cache', 'huggingface', 'hub', 'models--user--repo');
  mkdirSync(join(repo, 'blobs'), { recursive: true });
  const blob = makeGguf(join(repo, 'blobs', HEX));
  for (const commit of ['1'.repeat(40), '2'.repeat(40)]) {
    mkdirSync(join(repo, 'snapshots', commit), { recursive: true });
    symlinkSync(`../../blobs/${HEX}`, join(repo, 'snapshots', commit, 'tiny.gguf'));
  }
  write(join(repo, 'refs', 'main'), '2'.repeat(40));
  assert.equal(await find(), [
    {
      name: 'lm-studio/org/model-GGUF/large',
      path: join(studio, 'large-00001-of-00003.gguf'),
      source: 'lm-studio',
      digest: null,
    },
    {
      name: 'lm-studio/org/model-GGUF/model-Q4_K_M',
      path: first,
      source: 'lm-studio',
      digest: null,
    },
    { name: 'huggingface/user/repo/tiny', path: blob, source: 'huggingface', digest: null },
  ]);
});

test('a link that leaves the folder is not followed', async () => {
  const secret = makeGguf(at('secret.gguf'));
  const studio = at('.lmstudio', 'models');
  mkdirSync(join(studio, 'org'), { recursive: true });
  symlinkSync(secret, join(studio, 'org', 'link.gguf'));
  symlinkSync(home, join(studio, 'up'));
  symlinkSync(join(studio, 'loop.gguf'), join(studio, 'loop.gguf'));
  const root = at('.ollama', 'models');
  const blob = ollama(root, 'registry.ollama.ai/library/evil/a');
  rmSync(blob);
  symlinkSync(secret, blob);
  assert.equal(await find(), []);
});

test('folders can be named: by a variable of the program, or by the setting, in any layout', async () => {
  ollama(at('big', 'ollama'), 'registry.ollama.ai/library/a/1b');
  const env = { OLLAMA_MODELS: at('big', 'ollama') };
  assert.equal(
    (await find(env)).map(({ name }) => name),
    ['ollama/a:1b'],
  );
  mkdirSync(at('mine', 'sub'), { recursive: true });
  makeGguf(at('mine', 'sub', 'x.gguf'));
  assert.equal(
    (await find({}, [at('mine'), at('big', 'ollama'), at('missing')])).map(({ name }) => name),
    ['mine/sub/x', 'ollama/a:1b'],
  );
  assert.equal(await find(env, []), []);
});

test('the number of files is bounded', async () => {
  mkdirSync(at('mine'));
  for (let index = 0; index < 5; index += 1) makeGguf(at('mine', `${index}.gguf`));
  const others = new OtherModels({ env: {}, folders: [at('mine')], filesMax: 3 });
  assert.is((await others.find()).length, 3);
});

test('a model of Ollama is listed, answers without a copy, and cannot be removed', async () => {
  const root = at('.ollama', 'models');
  const path = ollama(root, 'registry.ollama.ai/library/tiny/1b');
  const before = readFileSync(path);
  chmodSync(path, 0o400);
  const others = new OtherModels({ env: { HOME: home }, folders: null, filesMax: 100 });
  const local = makeLocalProvider({ library: { others } });
  try {
    const listed = (await local.provider.models(AbortSignal.timeout(60_000))).at(-1);
    assert.is(listed?.id, 'local/ollama/tiny:1b');
    assert.is(listed?.source, 'ollama');
    assert.is(listed?.state, 'available');
    assert.is(listed?.path, path);
    for (const name of ['ollama/tiny:1b', 'tiny:1b', 'local/ollama/tiny:1b'])
      assert.is((await local.models.show(name)).path, path, name);
    const { finish } = await readAnswer(local, { model: 'ollama/tiny:1b', max_tokens: 4 });
    assert.ok(finish !== null);
    const refused = await local.models.remove('ollama/tiny:1b').catch((error: SvcError) => error);
    assert.is((refused as SvcError).code, 'invalid_request');
    assert.ok(readFileSync(path).equals(before));
    // The same check as for any other file comes before each load.
    const cut = ollama(root, 'registry.ollama.ai/library/cut/1b', 'd'.repeat(64));
    writeFileSync(cut, before.subarray(0, 4000));
    const again = new OtherModels({ env: { HOME: home }, folders: null, filesMax: 100 });
    const damaged = makeLocalProvider({ library: { others: again } });
    const failure = await readAnswer(damaged, { model: 'ollama/cut:1b' }).catch(
      (error: SvcError) => error,
    );
    await damaged.close();
    assert.is((failure as SvcError).code, 'model_invalid');
  } finally {
    await local.close();
  }
});

test.run();
