import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { loadConfig } from '../../src/config/config.ts';
import { encodeGguf } from '../fixtures/models/gguf-bytes.ts';
import { makeBert } from '../fixtures/models/make-bert.ts';
import { makeGguf, makeSplitGguf } from '../fixtures/models/make-gguf.ts';
import { sha256 } from '../helpers/hub.ts';
import { type ModelBench, modelSuite } from '../helpers/model-suite.ts';
import { makeModel } from '../helpers/pulls.ts';

/** The models folder from the command line: import, show, use, alias and remove. */

interface Bench extends ModelBench {
  json(args: readonly string[]): Promise<unknown>;
  fails(args: readonly string[]): Promise<[number | null, string, string]>;
}

const test = modelSuite('the folder of models', { 'tiny-Q4_K_M.gguf': makeModel(512) });

function commands(name: string, body: (bench: Bench) => Promise<void>): void {
  test(name, async ({ bench }) => {
    const json = async (args: readonly string[]) => {
      const { code, stdout, stderr } = await bench.svc([...args, '--json']);
      assert.is(code, 0, stderr);
      return JSON.parse(stdout) as unknown;
    };
    const fails = async (args: readonly string[]): Promise<[number | null, string, string]> => {
      const { code, stderr } = await bench.svc([...args, '--json']);
      const { error } = JSON.parse(stderr) as { error: { code: string; hint: string } };
      return [code, error.code, error.hint];
    };
    await body({ ...bench, json, fails });
  });
}

type Model = Record<string, unknown>;

commands('a file is imported as a link, checked, and its origin is kept', async (bench) => {
  const { folder, paths, svc, json, fails } = bench;
  const file = makeGguf(join(folder, 'my model.gguf'), {
    metadata: [['general.license', 'string', 'mit']],
  });
  const { code, stdout } = await svc(['model', 'import', file]);
  assert.is(code, 0);
  assert.is(stdout, 'local/my-model\n');
  const target = join(paths.models, 'my-model.gguf');
  assert.is(statSync(target).ino, statSync(file).ino);
  const shown = (await json(['model', 'show', 'my-model'])) as Model;
  assert.is(shown.architecture, 'llama');
  assert.is(shown.licence, 'mit');
  assert.is(shown.digest, `sha256:${sha256(readFileSync(file))}`);
  assert.ok(Number(shown.memory_bytes) > statSync(file).size);
  assert.is((shown.origin as Model).reference, realpathSync(file));
  assert.match((await svc(['model', 'show', 'my-model'])).stdout, /licence +mit/);

  assert.is((await fails(['model', 'import', file]))[1], 'model_exists');
  assert.is((await fails(['model', 'import', join(folder, 'none.gguf')]))[1], 'model_unknown');
  assert.is((await fails(['model', 'import', file, '--name', '../x']))[1], 'invalid_request');
  writeFileSync(join(folder, 'cut.gguf'), readFileSync(file).subarray(0, 3000));
  assert.is((await fails(['model', 'import', join(folder, 'cut.gguf')]))[1], 'model_invalid');
  assert.not(existsSync(join(paths.models, 'cut.gguf')));
  assert.ok(existsSync(join(folder, 'cut.gguf')), 'a refused file stays where it is');
  symlinkSync(file, join(folder, 'link.gguf'));
  assert.is(((await json(['model', 'import', join(folder, 'link.gguf')])) as Model).name, 'link');
});

commands('a model in several files is imported, shown and removed whole', async (bench) => {
  const { folder, paths, svc } = bench;
  const [, second = ''] = makeSplitGguf(join(folder, 'big.gguf'), 3);
  assert.is((await svc(['model', 'import', second])).stdout, 'local/big\n');
  assert.match((await svc(['model', 'list'])).stdout, /local\/big +\w+ +\S+ \w+, 3 files /);
  const { stdout } = await svc(['model', 'show', 'big']);
  assert.match(stdout, /size +\S+ \w+ in 3 files/);
  assert.match(stdout, /from +.*big-00001-of-00003\.gguf/);
  assert.is((await svc(['run', 'hi', '-m', 'big', '--max-tokens', '2'])).code, 0);
  const origins = () =>
    readdirSync(join(paths.data, 'origins')).filter((name) => name.startsWith('big'));
  assert.is(origins().length, 1);
  assert.match((await svc(['model', 'remove', 'big'])).stdout, /Removed local\/big: .* freed/);
  assert.equal(readdirSync(paths.models), []);
  assert.equal(origins(), []);
});

commands('the list says why a file is invalid, and where the folder is', async (bench) => {
  const { paths, svc, json, fails } = bench;
  mkdirSync(paths.models, { recursive: true });
  const whole = readFileSync(makeGguf(join(paths.models, 'GOOD.GGUF')));
  writeFileSync(join(paths.models, 'cut.gguf'), whole.subarray(0, whole.length - 1));
  writeFileSync(join(paths.models, 'text.gguf'), 'no model');
  writeFileSync(
    join(paths.models, 'weightless.gguf'),
    encodeGguf([['general.architecture', 'string', 'llama']], []),
  );
  symlinkSync('/no/such', join(paths.models, 'dangling.gguf'));
  let list: { models: Model[]; folder: string };
  // A list that reaches its deadline has what was read by then.
  do list = (await json(['model', 'list'])) as typeof list;
  while (list.models.some(({ state, parameters }) => state !== 'invalid' && parameters === null));
  assert.is(list.folder, paths.models);
  const problems = new Map(list.models.map(({ name, problem }) => [name, problem]));
  assert.is(problems.get('GOOD'), null);
  assert.match(String(problems.get('cut')), 'cut off');
  assert.match(String(problems.get('weightless')), 'no weights');
  assert.ok(problems.get('text'));
  assert.ok(problems.get('dangling'));
  const { stdout, stderr } = await svc(['model', 'list']);
  assert.match(stdout, /local\/cut +invalid .* it is cut off: \d+ bytes of at least \d+/);
  assert.match(stderr, paths.models);
  const shown = await svc(['model', 'show', 'cut']);
  assert.is(shown.code, 7);
  assert.match(shown.stdout, /problem +it is cut off: \d+ bytes of at least/);
  assert.is((await fails(['model', 'show', 'text']))[0], 7);
  const run = await svc(['run', 'hi', '--model', 'cut']);
  assert.is(run.code, 7);
  assert.match(run.stderr, /cut: The engine cannot load the file: it is cut off: /);
  const unknown = await svc(['model', 'show', 'dangling']);
  assert.is(unknown.code, 7);
  assert.match(unknown.stderr, /Known: svc-mini, GOOD\.\n/);
  assert.match((await svc(['model', 'show', 'GOD'])).stderr, 'Did you mean GOOD?');
  assert.match((await svc(['run', 'hi', '-m', 'gemma3:1b'])).stderr, 'svc model pull gemma3:1b');
});

commands('several models are removed at once, and what a download left', async (bench) => {
  const { paths, svc, json, hub, fails } = bench;
  mkdirSync(paths.models, { recursive: true });
  for (const name of ['a', 'b']) makeGguf(join(paths.models, `${name}.gguf`));
  const both = (await json(['model', 'remove', 'a', 'local/b'])) as { removed: Model[] };
  assert.equal(
    both.removed.map(({ name }) => name),
    ['a', 'b'],
  );
  hub.usual = { status: 404 };
  hub.next.push({ cutAfter: 300_000 });
  assert.is((await svc(['model', 'pull', 'hf:user/tiny'])).code, 7);
  const { partial } = (await json(['model', 'list'])) as { partial: Model[] };
  assert.equal(
    partial.map(({ name, size_bytes }) => [name, Number(size_bytes) > 0]),
    [['tiny-Q4_K_M', true]],
  );
  assert.match((await svc(['model', 'list'])).stdout, /tiny-Q4_K_M +partial/);
  assert.match((await svc(['model', 'remove', 'tiny-Q4_K_M'])).stdout, 'the downloaded part of');
  assert.is(existsSync(join(paths.models, 'tiny-Q4_K_M.gguf.partial.json')), false);
  assert.is((await fails(['model', 'remove', 'tiny-Q4_K_M']))[1], 'model_unknown');
  assert.match((await fails(['model', 'remove', 'svc-mini']))[2], 'It is a part of svc');
});

commands('a pulled model names the reference that it came from', async ({ json, svc }) => {
  await json(['model', 'pull', 'hf:user/tiny']);
  const { origin, digest } = (await json(['model', 'show', 'tiny-Q4_K_M'])) as {
    origin: Model;
    digest: string;
  };
  assert.is(origin.reference, 'hf:user/tiny');
  assert.is(origin.revision, 'c'.repeat(40));
  assert.is(digest, `sha256:${origin.sha256}`);
  assert.match(
    (await svc(['model', 'show', 'tiny-Q4_K_M'])).stdout,
    /from +hf:user\/tiny, revision/,
  );
});

commands(
  'what programs of Ollama pull and create is found by the names they use',
  async (bench) => {
    const { paths, svc, json } = bench;
    const post = async (path: string, body: object) => {
      const { code, stdout } = await svc(['api', 'POST', path, '--data', JSON.stringify(body)]);
      assert.is(code, 0, stdout);
      return stdout.trim();
    };
    const pulled = await post('/api/pull', { model: 'hf.co/user/tiny' });
    assert.match(pulled, /^\{"status":"pulling manifest"\}\n/);
    assert.match(pulled, /\{"status":"success"\}$/);
    for (const name of ['hf.co/user/tiny', 'hf:user/tiny', 'tiny-Q4_K_M:latest']) {
      const { details } = JSON.parse(await post('/api/show', { model: name }));
      assert.is(details.family, 'llama', name);
    }
    assert.is((await svc(['model', 'show', 'hf.co/user/other'])).code, 7);
    mkdirSync(paths.models, { recursive: true });
    makeGguf(join(paths.models, 'mine.gguf'));
    const parameters = { num_predict: 2, temperature: 0 };
    const made = { model: 'brief', from: 'mine:latest', system: 'Be brief.', parameters };
    await post('/api/create', { ...made, stream: false });
    const asked = async () => {
      const { id, model } = (await json(['run', 'hi', '-m', 'brief'])) as Model;
      const { system, usage } = (await json(['runs', 'show', String(id)])) as Model;
      return [model, system, (usage as Model).output_tokens];
    };
    const expected = ['mine', 'Be brief.', 2];
    assert.equal(await asked(), expected);
    await svc(['restart']);
    assert.equal(await asked(), expected);
    await json(['model', 'alias', 'brief', 'local/svc-mini']);
    const { system } = (await json(['run', 'hi', '-m', 'brief'])) as Model;
    assert.is(system ?? null, null, 'another alias of the name has nothing of the former one');
    assert.equal(await json(['model', 'alias', 'brief', '--remove']), { aliases: {} });
  },
);

commands('the chosen default and the aliases count at once, and after a restart', async (bench) => {
  const { paths, svc, json, fails } = bench;
  mkdirSync(paths.models, { recursive: true });
  makeGguf(join(paths.models, 'mine.gguf'));
  makeBert(join(paths.models, 'vectors.gguf'), { context: 64, ranks: false });
  assert.is((await fails(['model', 'use', 'nothing']))[1], 'model_unknown');
  const refused = await svc(['model', 'use', 'vectors']);
  assert.match(refused.stderr, /local\/vectors writes no answers/);
  assert.is(((await json(['model', 'use', 'mine'])) as Model).default, true);
  assert.is((await svc(['model', 'default'])).stdout, 'local/mine\n');
  assert.equal(await json(['model', 'alias', 'fast', 'local/mine']), {
    aliases: { fast: 'local/mine' },
  });
  assert.is((await svc(['run', 'hi', '-m', 'fast', '--max-tokens', '2'])).code, 0);
  const run = (await json(['run', 'hi', '--max-tokens', '2'])) as Model;
  assert.is(run.model, 'mine');
  assert.is(existsSync(paths.config), false, 'the file of the user is not written');
  await svc(['restart']);
  assert.is((await svc(['model', 'default'])).stdout, 'local/mine\n');
  assert.match((await svc(['model', 'alias'])).stdout, /fast +local\/mine/);
  const { sources, aliases } = loadConfig(paths.config, { env: {} });
  assert.equal([sources.model, sources.aliases], ['models.json', 'models.json']);
  assert.equal(aliases, { fast: 'local/mine' });
  assert.equal(await json(['model', 'alias', 'fast', '--remove']), { aliases: {} });
  assert.is((await fails(['model', 'alias', 'fast', '--remove']))[1], 'model_unknown');
  assert.is((await fails(['model', 'alias', 'fast']))[1], 'usage');
  await svc(['stop']);
  writeFileSync(paths.config, '{"model":"svc-mini","aliases":{"fast":"local/svc-mini"}}');
  assert.is((await svc(['start'])).code, 0);
  assert.is((await svc(['model', 'default'])).stdout, 'local/svc-mini\n');
  assert.match((await fails(['model', 'use', 'mine']))[2], 'svc config set model');
  assert.match(
    (await fails(['model', 'alias', 'fast', 'local/mine']))[2],
    'svc config set aliases',
  );
  await json(['model', 'alias', 'slow', 'local/mine']);
  assert.equal(await json(['model', 'alias']), {
    aliases: { fast: 'local/svc-mini', slow: 'local/mine' },
  });
});

test.run();
