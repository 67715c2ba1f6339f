import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Found, factsOf, stepsOf } from '../../src/cli/first-steps.ts';
import { modelsToBegin } from '../../src/cli/model/fitting.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { hasTerminal, onTerminal, playing, type Script, typeAt } from '../helpers/terminal.ts';

/** What `svc` and `svc model pull` say to a user who does not know what to type. */
const test = suite<{ home: Home }>('first steps');
const onTty = hasTerminal ? test : test.skip;

test.before.each((context) => {
  context.home = makeHome({ NO_COLOR: '1' });
});
test.after.each(({ home }) => home.close());

const LINES_MAX = 10;
const NEW: Found = {
  state: 'stopped',
  models: [],
  providers: [],
  server: null,
  fitting: { name: 'qwen3:4b', size_bytes: 2_500_000_000 },
};
const OLLAMA = {
  like: 'ollama',
  name: 'Ollama',
  base_url: 'http://127.0.0.1:11434/v1',
  models: ['a'],
  provider: null,
};
const commandsOf = (found: Partial<Found>) =>
  stepsOf({ ...NEW, ...found }).map(([command]) => command);

test('the steps follow from what is there', () => {
  const ends = ['svc chat', 'svc --help'];
  const pull = 'svc model pull qwen3:4b';
  const builtIn = 'svc run "What is svc?"';
  for (const [found, begin] of [
    [{}, [builtIn, pull, 'svc provider add openai']],
    [{ fitting: null }, [builtIn, 'svc provider add openai']],
    [{ server: OLLAMA }, [builtIn, pull, 'svc provider add ollama']],
    [{ providers: ['lab'] }, ['svc run "Hello" -p lab', pull]],
    [
      { models: ['nomic-embed-text', 'tiny'] },
      ['svc run "Hello" -m tiny', 'svc provider add openai'],
    ],
    [{ models: ['nomic-embed-text'], providers: ['lab'] }, ['svc run "Hello" -p lab', pull]],
    [{ models: ['tiny'], providers: ['lab'] }, ['svc run "Hello" -m tiny']],
    [
      { state: 'crashed', models: ['tiny'], providers: ['lab'] },
      ['svc doctor', 'svc run "Hello" -m tiny'],
    ],
  ] as const)
    assert.equal(commandsOf(found), [...begin, ...ends], JSON.stringify(found));
});

test('the state is in words, and all of it has ten lines at most', () => {
  const [daemon, models, providers, server] = factsOf(NEW).map(([, text]) => text);
  assert.match(daemon ?? '', 'stopped');
  assert.match(models ?? '', 'built-in');
  assert.equal([providers, server], ['none', null]);
  const names = ['a', 'b', 'c', 'd', 'e'];
  const many = { ...NEW, state: 'crashed', server: OLLAMA, models: names, providers: names };
  assert.equal(
    factsOf(many).map(([, text]) => text),
    ['crashed', 'a, b, c, and 2 more', 'a, b, c, and 2 more', `Ollama at ${OLLAMA.base_url}`],
  );
  for (const found of [many, { ...many, models: [], providers: [] }])
    assert.ok(factsOf(found).length + stepsOf(found).length <= LINES_MAX);
});

onTty('svc alone says at a terminal what to do next, and starts no daemon', async ({ home }) => {
  const first = await onTerminal([], home.env);
  assert.is(first.code, 0, first.text);
  const lines = first.text.trimEnd().split('\n');
  assert.ok(lines.length <= LINES_MAX, first.text);
  assert.match(first.text, /daemon +stopped/);
  assert.match(first.text, /models +the built-in one/);
  assert.match(first.text, /providers +none/);
  assert.match(first.text, 'svc run "What is svc?"');
  assert.match(first.text, /svc model pull \S+ +[\d.]+ [MG]iB, fits this machine/);
  assert.is((await home.svc(['status'])).code, 3);

  mkdirSync(home.paths.models, { recursive: true });
  writeFileSync(join(home.paths.models, 'tiny.gguf'), 'GGUF');
  assert.is(
    (await home.svc(['provider', 'add', 'lab', '--base-url', 'http://127.0.0.1:9/v1'])).code,
    0,
  );
  const later = await onTerminal([], home.env);
  assert.match(later.text, /models +tiny/);
  assert.match(later.text, /providers +lab/);
  assert.match(later.text, 'svc run "Hello" -m tiny');
  assert.not.match(later.text, 'svc model pull');
});

/** Whether a model of this size fits. */
const upTo = (bytes: number) => (weights: number) => ({
  verdict: weights <= bytes ? ('fits' as const) : ('does not fit' as const),
});

test('three models are offered, each at most half of the one before, and each answers', () => {
  for (const [megabytes, count] of [
    [100_000, 3],
    [3000, 3],
    [700, 3],
    [110, 1],
    [50, 0],
  ] as const) {
    const models = modelsToBegin(upTo(megabytes * 1e6));
    assert.is(models.length, count, `${megabytes} MB`);
    for (const [index, { name, size_bytes, good_for }] of models.entries()) {
      assert.ok(size_bytes <= megabytes * 1e6, name);
      assert.not.match(good_for, /embeddings|large machines/);
      const before = models[index - 1];
      assert.ok(before === undefined || size_bytes <= before.size_bytes / 2, name);
    }
  }
  const tight = modelsToBegin((weights) => ({ verdict: weights < 3e9 ? 'tight' : 'does not fit' }));
  assert.is(tight.length, 3, 'where none fits well, those that are tight are offered');
});

test('a pull without a name prints what fits with its command, and exits like a wrong line', async ({
  home,
}) => {
  const { code, stdout, stderr } = await home.svc(['model', 'pull']);
  assert.equal([code, stdout], [2, '']);
  const rows = [...stderr.matchAll(/^svc model pull (\S+) +[\d.]+ [MG]iB +\S/gm)];
  assert.is(rows.length, 3, stderr);
  assert.match(stderr, /error: svc model pull needs the name of a model\.\nhint: /);
  const json = await home.svc(['model', 'pull', '--json']);
  assert.equal([json.code, json.stdout], [2, '']);
  const { error } = JSON.parse(json.stderr);
  assert.equal(
    error.details.models.map(({ name }: { name: string }) => name),
    rows.map(([, name]) => name),
  );
});

onTty('at a terminal a pull without a name asks which', async ({ home }) => {
  const script: Script = [
    ['(1, 2, 3, none) ', '9\r'],
    ['(1, 2, 3, none) ', '\r'],
    ['(1, 2, 3, none) ', 'n\r'],
  ];
  const none = await onTerminal(['model', 'pull'], home.env, playing(script));
  assert.is(none.code, 2, none.text);
  assert.is(none.text.match(/Type one of these words: 1, 2, 3, none\./g)?.length, 2, none.text);
  const ended = await typeAt(['model', 'pull'], home.env, 'Which one?', '\u0004');
  assert.is(ended.code, 2, ended.text);
  // Without a daemon the pull of the chosen one goes as far as the socket.
  const chosen = await typeAt(['model', 'pull'], home.env, 'Which one?', '3');
  assert.is(chosen.code, 3, chosen.text);
  assert.match(chosen.text, 'svc start');
});

test.run();
