import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { shortMessages } from '../../../machines/messages.ts';
import { seedAt } from '../../../src/providers/local/engine/decode/sampler.ts';
import { parseFromEngine, parseToEngine } from '../../../src/providers/local/engine/messages.ts';
import { engineEnvironment } from '../../../src/providers/local/engine-process.ts';

test('a valid message is accepted', () => {
  const run = {
    type: 'run',
    id: 1,
    client: 'c',
    messages: shortMessages('hello', null),
    max_tokens: 5,
    temperature: 0.5,
    seed: 3,
    exact: true,
    only_count: false,
    options: {},
    call_key: 'a',
    resume: null,
  };
  const computed = { batched: false, threads: null };
  const resumed = { ...run, resume: { token_ids: [1, 2], text: 'a', parts: [], ...computed } };
  assert.equal(parseToEngine(run), run);
  assert.equal(parseToEngine(resumed), resumed);
  const wrong = { token_ids: [-1], text: 'a', parts: [], ...computed };
  for (const resume of [undefined, [1], wrong, { ...resumed.resume, batched: undefined }])
    assert.is(parseToEngine({ ...run, resume }), null);
  const embed = { type: 'embed', id: 2, texts: ['a'], dimensions: null };
  assert.equal(parseToEngine(embed), embed);
  assert.is(parseToEngine({ ...embed, texts: [1] }), null);
  const output = { type: 'output', id: 1, text: 'a', token_ids: [1, 2] };
  assert.equal(parseFromEngine(output), output);
});

test('an invalid message is refused', () => {
  const wrong = [
    null,
    'output',
    [],
    {},
    { type: 'toString' },
    { type: '__proto__' },
    { type: 'output', id: 1, text: 'a', token_ids: ['1'] },
    { type: 'output', id: -1, text: 'a', token_ids: [] },
    { type: 'failed', id: 1, error: { code: 'x' } },
    { type: 'finished', id: 1, finish_reason: 'stop', usage: null },
    { type: 'loaded', threads: 1 },
  ];
  for (const value of wrong) assert.is(parseFromEngine(value), null, JSON.stringify(value));
  for (const value of [
    null,
    7,
    { type: 'load', path: 1 },
    { type: 'stop_run' },
    { type: 'run', id: 1 },
  ])
    assert.is(parseToEngine(value), null);
});

test('each position of a run has its own seed, which is never the value for a random seed', () => {
  const seeds = new Set<number>();
  for (let run = 0; run < 40; run += 1)
    for (let position = 0; position < 250; position += 1)
      seeds.add(seedAt(run * 107_374_182, position));
  assert.ok(seeds.size > 9_990, `${seeds.size} of 10000 differ`);
  for (const seed of seeds) assert.ok(Number.isInteger(seed) && seed >= 0 && seed < 2 ** 31);
});

test('the engine gets what it needs of the environment and no key', () => {
  const env = {
    PATH: '/bin',
    HOME: '/h',
    CUDA_VISIBLE_DEVICES: '0',
    LC_ALL: 'C',
    OPENAI_API_KEY: 's',
    NODE_OPTIONS: '--inspect',
    SVC_MODEL: 'm',
    AWS_SECRET: 'x',
    PATHOLOGICAL: 'y',
    CUDA_SECRET: 'x',
    GGML_TOKEN: 'x',
  };
  assert.equal(engineEnvironment(env), {
    MALLOC_ARENA_MAX: '1',
    PATH: '/bin',
    HOME: '/h',
    CUDA_VISIBLE_DEVICES: '0',
    LC_ALL: 'C',
  });
  assert.equal(engineEnvironment({ MALLOC_ARENA_MAX: '4' }), { MALLOC_ARENA_MAX: '4' });
});

test.run();
