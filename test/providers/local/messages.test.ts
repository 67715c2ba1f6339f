import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { seedAt } from '../../../src/engine/decode/sampler.ts';
import { parseFromEngine } from '../../../src/engine/protocol/from-engine.ts';
import { engineEnvironment } from '../../../src/providers/local/engine-child.ts';

test('a message of the engine is accepted, also with fields that a later build adds', () => {
  const output = { type: 'output', id: 1, text: 'a', token_ids: [1, 2], threads: 3, later: 1 };
  assert.is(parseFromEngine(output), output);
  const usage = { input_tokens: 1, output_tokens: null };
  const finished = { type: 'finished', id: 1, finish_reason: 'stop', usage, stop_sequence: 'x' };
  assert.is(parseFromEngine(finished), finished);
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
    { type: 'output', id: 1, text: 'a', token_ids: [], logprobs: 5 },
    { type: 'failed', id: 1, error: { code: 'x' } },
    { type: 'finished', id: 1, finish_reason: 'stop', usage: null },
    { type: 'loaded', threads: 1 },
  ];
  for (const value of wrong) assert.is(parseFromEngine(value), null, JSON.stringify(value));
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
